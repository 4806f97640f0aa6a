/*
 * use_counts: how often keys were used lately, 0 to USE_COUNTS_MAX: two bits for each place of a
 * table that hashes point into. Keys that share a place share the count.
 *
 * Threads: use_counts_add and use_counts_get: any, without a lock; an update that meets another may
 * be lost. The rest: one at a time.
 */
#ifndef MQKV_KVSTORE_EVICTION_USE_COUNTS_H
#define MQKV_KVSTORE_EVICTION_USE_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#define USE_COUNTS_MAX 3u

/* One size of the table. */
struct use_table {
    struct use_table *smaller; /* the table before, in which a thread may still look */
    uint32_t mask;             /* of places */
    uint8_t bytes[];
};

struct use_counts {
    struct use_table *table;
};

/* False: out of memory. */
bool use_counts_begin(struct use_counts *counts);
void use_counts_end(struct use_counts *counts);

/* Makes room for `keys` keys. Tables that were replaced stay, together smaller than the one in use.
 * Without memory the table stays as it is. */
void use_counts_expect(struct use_counts *counts, uint64_t keys);

uint64_t use_counts_memory_bytes(const struct use_counts *counts);

static inline struct use_table *use_counts_table(const struct use_counts *counts)
{
    return __atomic_load_n(&counts->table, __ATOMIC_ACQUIRE);
}

static inline unsigned use_counts_get(const struct use_counts *counts, uint32_t hash)
{
    const struct use_table *table = use_counts_table(counts);
    uint32_t place = hash & table->mask;
    return __atomic_load_n(&table->bytes[place / 4], __ATOMIC_RELAXED) >> place % 4 * 2 & 3;
}

static inline void use_counts_set(const struct use_counts *counts, uint32_t hash, unsigned uses)
{
    struct use_table *table = use_counts_table(counts);
    uint32_t place = hash & table->mask;
    unsigned shift = place % 4 * 2;
    unsigned byte = __atomic_load_n(&table->bytes[place / 4], __ATOMIC_RELAXED);
    byte = (byte & ~(3u << shift)) | uses << shift;
    __atomic_store_n(&table->bytes[place / 4], (uint8_t)byte, __ATOMIC_RELAXED);
}

/* Counts a use. Writes only a count that changes, so that the places of popular keys stay in every
 * core's cache. */
static inline void use_counts_add(const struct use_counts *counts, uint32_t hash)
{
    unsigned uses = use_counts_get(counts, hash);
    if (uses < USE_COUNTS_MAX)
        use_counts_set(counts, hash, uses + 1);
}

#endif
