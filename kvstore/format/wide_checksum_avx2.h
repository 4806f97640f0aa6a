/*
 * wide_checksum_avx2: what wide_checksum does with AVX2, on x86-64 and with gcc. The caller knows
 * that the CPU has it.
 */
#ifndef MQKV_KVSTORE_FORMAT_WIDE_CHECKSUM_AVX2_H
#define MQKV_KVSTORE_FORMAT_WIDE_CHECKSUM_AVX2_H

#include <stdint.h>

/* Whether the compiler makes code for one function that the others of the program cannot use. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE_CHECKSUM_HAS_AVX2 1
#else
#define WIDE_CHECKSUM_HAS_AVX2 0
#endif

uint64_t wide_checksum_avx2(const uint8_t *at, uint64_t size, uint64_t seed);

/* `state` is an XXH3_state_t. */
void wide_checksum_avx2_update(void *state, const uint8_t *at, uint64_t size);

#endif
