/*
 * machine_sizes: sizes for the layout of data: those of x86-64 and of most other machines. A
 * machine with larger cache lines or pages runs the same code, somewhat slower.
 */
#ifndef MQKV_COMMON_MEMORY_MACHINE_SIZES_H
#define MQKV_COMMON_MEMORY_MACHINE_SIZES_H

#include <stdint.h>

#define CACHE_LINE_BYTES 64u
#define PAGE_BYTES       UINT64_C(4096)

#endif
