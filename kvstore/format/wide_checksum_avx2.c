#include "kvstore/format/wide_checksum_avx2.h"

#if WIDE_CHECKSUM_HAS_AVX2
#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(XXH_VECTOR == XXH_AVX2, "the pragma stands before what it is for");

uint64_t wide_checksum_avx2(const uint8_t *at, uint64_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(at, size, seed);
}

void wide_checksum_avx2_update(void *state, const uint8_t *at, uint64_t size)
{
    (void)XXH3_64bits_update(state, at, size);
}
#endif
