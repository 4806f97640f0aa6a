#include "kvstore/format/wide_checksum.h"

#include <stdbool.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kvstore/format/wide_checksum_avx2.h"

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct wide_stream) &&
                   alignof(XXH3_state_t) <= alignof(struct wide_stream),
               "a stream has room for the state");

static inline bool has_avx2(void)
{
#if WIDE_CHECKSUM_HAS_AVX2
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

uint64_t wide_checksum(const uint8_t *at, uint64_t size, uint64_t seed)
{
    return has_avx2() ? wide_checksum_avx2(at, size, seed) : XXH3_64bits_withSeed(at, size, seed);
}

void wide_stream_begin(struct wide_stream *stream, uint64_t seed)
{
    *stream = (struct wide_stream){0};
    XXH3_64bits_reset_withSeed((XXH3_state_t *)stream->state, seed);
}

void wide_stream_add(struct wide_stream *stream, const uint8_t *at, uint64_t size)
{
    if (has_avx2())
        wide_checksum_avx2_update(stream->state, at, size);
    else
        (void)XXH3_64bits_update((XXH3_state_t *)stream->state, at, size);
}

uint64_t wide_stream_end(const struct wide_stream *stream)
{
    return XXH3_64bits_digest((const XXH3_state_t *)stream->state);
}
