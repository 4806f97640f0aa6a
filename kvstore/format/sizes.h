/*
 * sizes: the arithmetic of sizes and offsets that every module of the engine needs.
 *
 * Threads: any.
 */
#ifndef MQKV_KVSTORE_FORMAT_SIZES_H
#define MQKV_KVSTORE_FORMAT_SIZES_H

#include <stdint.h>

/* The next multiple of `unit`, or `bytes` itself if it is one. The caller knows that the sum of
 * both does not overflow. */
static inline uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static inline uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

static inline uint64_t at_least(uint64_t value, uint64_t limit)
{
    return value > limit ? value : limit;
}

#endif
