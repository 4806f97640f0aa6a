/*
 * machine_sizes: sizes that data is laid out by: those of x86-64 and of most other machines. A
 * machine with larger ones runs the same code, somewhat slower.
 */
#ifndef MQKV_COMMON_MEMORY_MACHINE_SIZES_H
#define MQKV_COMMON_MEMORY_MACHINE_SIZES_H

#include <stdint.h>

#define CACHE_LINE_BYTES 64u
#define PAGE_BYTES       UINT64_C(4096)

#endif
