#include "kvstore/format/wide_checksum_avx2.h"

#if WIDE_CHECKSUM_HAS_AVX2
#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined XXH_VECTOR && XXH_VECTOR != XXH_AVX2 /* the explorer has the library's functions */
#error "the pragma does not reach the vectors"
#endif

uint64_t wide_checksum_avx2(const uint8_t *at, uint64_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(at, size, seed);
}

void wide_checksum_avx2_update(void *state, const uint8_t *at, uint64_t size)
{
    (void)XXH3_64bits_update(state, at, size);
}
#endif
