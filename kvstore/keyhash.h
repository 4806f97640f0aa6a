/*
 * keyhash: where a key belongs. One 64-bit hash (XXH3, seeded per store) serves all: the low 32
 * bits pick the data file, the high 32 bits are the hash of the index, and the lowest bits break
 * ties in the order of a scan.
 */
#ifndef MQKV_KVSTORE_KEYHASH_H
#define MQKV_KVSTORE_KEYHASH_H

#include <stdint.h>
#include <xxhash.h>

#include "common/slice.h"

static inline uint64_t keyhash(uint64_t store_seed, struct kv_slice key)
{
    return XXH3_64bits_withSeed(key.data, key.size, store_seed);
}

/* The low half, scaled to 0 .. datafiles-1 by multiplication (Lemire, "Fast Random Integer
 * Generation in an Interval"): keys are spread evenly for any D. */
static inline uint32_t keyhash_file(uint64_t hash, uint32_t datafiles)
{
    return (uint32_t)(((hash & UINT32_MAX) * datafiles) >> 32);
}

static inline uint32_t keyhash_index(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

#endif
