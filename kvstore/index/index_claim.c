#include "kvstore/index/index_claim.h"

#include "kvstore/index/arena_claim.h"
#include "kvstore/index/item_sum.h"
#include "kvstore/shared/segment.h"

struct claiming {
    struct arena *arena;
    const char *base;
    const uint32_t *entries;
    uint32_t depth;
    uint64_t min_offset, end_offset;
    uint64_t keys, segments, expiring_segments, sum; /* so far */
};

/* Returns true if an item is in its segment, its offset is one where the log has bytes, and a
 * lookup, which ends at the first item that is nearer to its home, gets to the item. */
static bool item_is_sound(const struct claiming *claiming, const struct index_segment *segment,
                          uint32_t position, uint32_t prefix)
{
    slot item = segment->slots[position];
    slot before = segment->slots[(position - 1) & SEGMENT_HOME_MASK];
    uint64_t offset = index_slot_offset(item);
    uint32_t distance = slot_distance(item, position);
    bool is_here = ((uint64_t)slot_hash(item) >> (SEGMENT_HASH_BITS - segment->depth)) == prefix;
    bool is_found =
        distance == 0 ||
        (before != 0 && slot_distance(before, (position - 1) & SEGMENT_HOME_MASK) + 1 >= distance);
    return is_here && is_found && offset >= claiming->min_offset && offset < claiming->end_offset;
}

static bool count_segment(struct claiming *claiming, const struct index_segment *segment,
                          uint32_t prefix)
{
    uint32_t count = 0;
    uint64_t sum = 0;
    for (uint32_t position = 0; position < INDEX_SEGMENT_SLOTS; position++) {
        if (segment->slots[position] == 0)
            continue;
        if (!item_is_sound(claiming, segment, position, prefix))
            return false;
        sum += item_sum_part(segment->slots[position]);
        count++;
    }
    if (segment->expiry_bound_ms != SEGMENT_NO_EXPIRY) {
        sum += item_sum_part(segment->expiry_bound_ms);
        claiming->expiring_segments++;
    }
    claiming->keys += count;
    claiming->segments++;
    claiming->sum += sum;
    return count == segment->count;
}

static const struct index_segment *claimed_segment(const struct claiming *claiming,
                                                   uint32_t reference)
{
    return (const void *)(claiming->base + (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT);
}

/* Returns true if the segment has the entries from `entry` on that its depth says. */
static bool has_its_entries(const struct claiming *claiming, uint64_t entry, uint32_t depth)
{
    if (depth > claiming->depth)
        return false;
    uint64_t count = UINT64_C(1) << (claiming->depth - depth);
    if (entry % count != 0)
        return false;
    for (uint64_t i = 1; i < count; i++)
        if (claiming->entries[entry + i] != claiming->entries[entry])
            return false;
    return true;
}

static uint64_t next_entry(const struct claiming *claiming, uint64_t entry)
{
    const struct index_segment *segment = claimed_segment(claiming, claiming->entries[entry]);
    return entry + (UINT64_C(1) << (claiming->depth - segment->depth));
}

/* Undoes the claims of the segments before the entry `end`. */
static void undo_claims(const struct claiming *claiming, uint64_t end)
{
    for (uint64_t entry = 0; entry < end;) {
        uint32_t reference = claiming->entries[entry];
        entry = next_entry(claiming, entry);
        arena_give(claiming->arena, reference, sizeof(struct index_segment));
    }
}

static bool claim_segments(struct claiming *claiming)
{
    uint64_t count = UINT64_C(1) << claiming->depth;
    for (uint64_t entry = 0; entry < count; entry = next_entry(claiming, entry)) {
        uint32_t reference = claiming->entries[entry];
        if (!arena_claim(claiming->arena, reference, sizeof(struct index_segment))) {
            undo_claims(claiming, entry);
            return false;
        }
        const struct index_segment *segment = claimed_segment(claiming, reference);
        uint32_t depth = segment->depth;
        if (!has_its_entries(claiming, entry, depth) ||
            !count_segment(claiming, segment, (uint32_t)(entry >> (claiming->depth - depth)))) {
            arena_give(claiming->arena, reference, sizeof(struct index_segment));
            undo_claims(claiming, entry);
            return false;
        }
    }
    return true;
}

void index_give_up(struct arena *arena, const struct shared_generation *words)
{
    uint32_t depth = shared_directory_depth(words->directory);
    struct claiming all = {.arena = arena, .base = arena_base(arena), .depth = depth};
    all.entries = (const void *)(all.base + shared_directory_offset(words->directory));
    undo_claims(&all, UINT64_C(1) << depth);
    arena_give(arena, (uint32_t)(words->directory >> 8), sizeof(uint32_t) << depth);
}

bool index_claim(struct arena *arena, const struct shared_generation *words, uint64_t min_offset,
                 uint64_t end_offset, uint64_t *sum)
{
    uint64_t reference = words->directory >> 8;
    uint32_t depth = shared_directory_depth(words->directory);
    if (reference == 0 || reference > UINT32_MAX || depth > SEGMENT_HASH_BITS ||
        !arena_claim(arena, (uint32_t)reference, sizeof(uint32_t) << depth))
        return false;
    struct claiming claiming = {.arena = arena,
                                .base = arena_base(arena),
                                .depth = depth,
                                .min_offset = min_offset,
                                .end_offset = end_offset};
    claiming.entries = (const void *)(claiming.base + shared_directory_offset(words->directory));
    bool claimed = claim_segments(&claiming);
    bool agrees = claimed && claiming.keys == words->keys && claiming.segments == words->segments &&
                  claiming.expiring_segments == words->expiring_segments;
    if (claimed && !agrees)
        undo_claims(&claiming, UINT64_C(1) << depth);
    if (!agrees)
        arena_give(arena, (uint32_t)reference, sizeof(uint32_t) << depth);
    *sum = claiming.sum;
    return agrees;
}
