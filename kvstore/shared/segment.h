/*
 * segment: INDEX_SEGMENT_SLOTS slots of an index (kvstore/index/index.h), a small table with linear
 * probing, and the probe that looks for a key in it. The engine changes segments; readers in other
 * processes that have mapped them (shared_store.h) only probe. Both use the code below.
 *
 * A slot holds 32 bits of the key's hash in its upper half and the offset of the record, in units
 * of 8 bytes, in its lower half; 0 is a free slot. Items are kept in the order of their distance
 * from their home (index.c), so that a probe ends at the first item that is nearer to its own home.
 *
 * Threads: any. A thread that probes without the lock of the data file must check afterwards that
 * nothing was moved meanwhile; until then the result is a guess from whatever bytes there are,
 * which ends in bounded time.
 */
#ifndef MQKV_KVSTORE_SHARED_SEGMENT_H
#define MQKV_KVSTORE_SHARED_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_SEGMENT_SLOTS 512u
#define SEGMENT_HOME_MASK   (INDEX_SEGMENT_SLOTS - 1)
#define SEGMENT_HASH_BITS   32u
#define SEGMENT_OFFSET_UNIT 8u

/* No entry of the segment has an expiry. */
#define SEGMENT_NO_EXPIRY UINT64_MAX

/* As numbers, slots sort by hash. */
typedef uint64_t slot;

struct index_segment {
    uint32_t count;
    uint32_t depth;           /* number of top bits that all its hashes share */
    uint64_t expiry_bound_ms; /* no entry expires before */
    slot slots[INDEX_SEGMENT_SLOTS];
};

_Static_assert(offsetof(struct index_segment, slots) == 16, "layout");
_Static_assert(sizeof(struct index_segment) == 16 + 8 * INDEX_SEGMENT_SLOTS, "layout");

static inline slot index_slot_of(uint32_t hash, uint64_t offset_bytes)
{
    return (uint64_t)hash << 32 | offset_bytes / SEGMENT_OFFSET_UNIT;
}

static inline uint32_t slot_hash(slot item)
{
    return (uint32_t)(item >> 32);
}

static inline uint64_t index_slot_offset(slot item)
{
    return (uint64_t)(uint32_t)item * SEGMENT_OFFSET_UNIT;
}

/* How far the item in `position` lies from its home. */
static inline uint32_t slot_distance(slot item, uint32_t position)
{
    return (position - slot_hash(item)) & SEGMENT_HOME_MASK;
}

static inline slot load_slot(const slot *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline void store_slot(slot *at, slot item)
{
    __atomic_store_n(at, item, __ATOMIC_RELEASE);
}

/* A walk over the slots of a segment whose hash is the wanted one. */
struct segment_probe {
    const struct index_segment *segment;
    uint32_t hash;
    uint32_t position; /* slot to look at next; the last candidate given is the one before */
    uint32_t distance; /* of that slot from where the hash belongs */
};

static inline void segment_probe_start(struct segment_probe *probe,
                                       const struct index_segment *segment, uint32_t hash)
{
    probe->segment = segment;
    probe->hash = hash;
    probe->position = hash & SEGMENT_HOME_MASK;
    probe->distance = 0;
}

/* The offset (bytes, a multiple of 8) of the next candidate's record; false when there is none. */
static inline bool segment_probe_next(struct segment_probe *probe, uint64_t *offset_bytes)
{
    const slot *slots = probe->segment->slots;
    for (; probe->distance < INDEX_SEGMENT_SLOTS; probe->distance++) {
        slot item = load_slot(&slots[probe->position]);
        if (item == 0 || slot_distance(item, probe->position) < probe->distance)
            return false;
        probe->position = (probe->position + 1) & SEGMENT_HOME_MASK;
        if (slot_hash(item) == probe->hash) {
            probe->distance++;
            *offset_bytes = index_slot_offset(item);
            return true;
        }
    }
    return false;
}

/* The first hash past those of the segment of that depth that holds `hash`. */
static inline uint64_t segment_end(uint32_t depth, uint32_t hash)
{
    uint64_t width = UINT64_C(1) << (SEGMENT_HASH_BITS - depth);
    return (hash & ~(width - 1)) + width;
}

/* Copies the taken slots with hashes from from_hash on to `items`, in the order of their hashes.
 * Returns how many. */
size_t segment_collect(const struct index_segment *segment, uint64_t from_hash,
                       slot items[INDEX_SEGMENT_SLOTS]);

#endif
