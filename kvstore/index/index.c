/*
 * Within a segment, items are kept in the order of how far they lie from their home slot ("Robin
 * Hood hashing", P. Celis, 1986): an insertion takes the slot of the first item that is nearer to
 * its own home than the newcomer would be, and moves that one on. Lookups of absent keys then stop
 * as early as those of present ones, which allows the high fill; deletion shifts the followers back
 * until one is at home, so there are no tombstones (Knuth, TAOCP 3, 6.4, algorithm R).
 *
 *   hash:  31 ............... 32-depth | ............ | 8 ............. 0
 *          directory index, grows       the next split   home in the segment
 *
 * Both uses meet only past depth 23, some 2 billion keys, more than a file of 32 GiB can hold;
 * items then crowd at a few homes and probes get longer, nothing else.
 *
 * Measured with random hashes while n grew from 1e3 to 1e7 (gcc -O2, one 2.3 GHz Xeon core). Bytes
 * a key swing with the generations of splits, since all segments fill at about the same pace; slots
 * looked at by a lookup are means at the fullest moment, the longest lookup is of 2 million:
 *
 *   split at      bytes a key,    slots looked at         ns an insertion,
 *                    worst      absent key   longest      n = 1 .. 1e7
 *   400 (78 %)        20.0         2.7         19            130
 *   448 (88 %)        17.7         3.6         27            145
 *   480 (94 %)        16.6         5.3         39            195   <- SPLIT_ITEMS
 *   496 (97 %)        16.0         7.0         42            195
 *
 * 480 is the lowest of these that keeps to about 16 bytes a key (9.6 at best, 13.5 at 1e7 keys),
 * and 5 slots are one cache line or two.
 */
#include "kvstore/index/index.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "kvstore/index/arena.h"
#include "kvstore/index/index_claim.h"
#include "kvstore/index/item_sum.h"

/* A segment that has this many items splits when one more is to be added. */
#define SPLIT_ITEMS 480u
_Static_assert(SPLIT_ITEMS < INDEX_SEGMENT_SLOTS, "a probe meets a free slot");

/* The directory has at most MAX_ENTRIES_PER_SEGMENT entries per segment, or FREE_ENTRIES. With a
 * good hash there are 1 to 4 per segment. Hashes that crowd in one place would double the directory
 * with each split, up to 32 GiB at the full depth.
 *
 * n good hashes in ascending order, as a checkpoint or a scan gives them, crowd too: they need
 * their final depth, n / SPLIT_ITEMS entries, from the first segment on. 8 MiB of free entries are
 * enough for n = 500 million. */
#define MAX_ENTRIES_PER_SEGMENT 64u
#define FREE_ENTRIES            (1u << 20)

/* How many segments one call of index_next_expiring looks at, at most. */
#define EXPIRY_LOOK_SEGMENTS 1024u

_Static_assert(sizeof(struct index_segment) == ARENA_BLOCK_BYTES, "the arena's block");

/* Invariants: a segment of depth d stands in the 1 << (depth - d) entries of the directory whose
 * top d bits are its own; every item is in the segment of its hash; in a segment no free slot lies
 * between an item and its home. Readers without the lock (index.h), in this process and in others,
 * look at the word `directory`, its entries and the slots: these are loaded with acquire and, once
 * the index is shared, stored with release. `moves` is stored before the first of the stores that
 * it announces; as each of those is a release, a reader that has seen one of them sees that `moves`
 * has changed. */
struct index {
    struct shared_generation *words; /* the numbers and the directory */
    char *base;                      /* of the arena */
    struct arena *arena;
    uint64_t sum; /* of all items and bounds (item_sum.h) */
    bool keeps_directories;
    uint32_t kept[SEGMENT_HASH_BITS]; /* by depth: the directory that was replaced; 0: none */
};

static void begin_moves(struct index *index)
{
    KV_ASSERT(index->words->moves % 2 == 0);
    __atomic_store_n(&index->words->moves, index->words->moves + 1, __ATOMIC_RELAXED);
}

static void end_moves(struct index *index)
{
    KV_ASSERT(index->words->moves % 2 == 1);
    __atomic_store_n(&index->words->moves, index->words->moves + 1, __ATOMIC_RELEASE);
}

static uint64_t directory_entry(uint32_t depth, uint32_t hash)
{
    return (uint64_t)hash >> (SEGMENT_HASH_BITS - depth);
}

static uint32_t *entries_of(const struct index *index, uint64_t directory)
{
    return (uint32_t *)(void *)(index->base + shared_directory_offset(directory));
}

static uint32_t depth_of(const struct index *index)
{
    return shared_directory_depth(index->words->directory);
}

static struct index_segment *index_segment_at(const struct index *index, uint32_t reference)
{
    return (void *)(index->base + (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT);
}

static struct index_segment *segment_of(const struct index *index, uint32_t hash)
{
    uint64_t directory = __atomic_load_n(&index->words->directory, __ATOMIC_ACQUIRE);
    const uint32_t *entries = entries_of(index, directory);
    uint64_t entry = directory_entry(shared_directory_depth(directory), hash);
    return index_segment_at(index, __atomic_load_n(&entries[entry], __ATOMIC_ACQUIRE));
}

/* The reference of a new segment; 0: out of memory. */
static uint32_t segment_create(const struct index *index, uint32_t depth)
{
    KV_ASSERT(depth <= SEGMENT_HASH_BITS);
    uint32_t reference = arena_take(index->arena, sizeof(struct index_segment));
    if (reference) {
        struct index_segment *segment = index_segment_at(index, reference);
        segment->depth = depth;
        segment->expiry_bound_ms = SEGMENT_NO_EXPIRY;
    }
    return reference;
}

static uint64_t directory_bytes(uint32_t depth)
{
    return sizeof(uint32_t) << depth;
}

/* Gives the index one segment without an item. False: out of memory. */
static bool index_begin_empty(struct index *index)
{
    uint32_t directory = arena_take(index->arena, directory_bytes(0));
    uint32_t first = segment_create(index, 0);
    if (!directory || !first) {
        arena_give(index->arena, directory, directory_bytes(0));
        arena_give(index->arena, first, sizeof(struct index_segment));
        return false;
    }
    struct shared_generation *words = index->words;
    words->directory = shared_directory(directory, 0);
    entries_of(index, words->directory)[0] = first;
    words->segments = 1;
    words->keys = words->expiring_segments = 0;
    index->sum = 0;
    return true;
}

static struct index *index_make(struct arena *arena, struct shared_generation *words)
{
    struct index *index = calloc(1, sizeof *index);
    if (!index)
        return NULL;
    index->arena = arena;
    index->base = arena_base(arena);
    index->words = words;
    return index;
}

struct index *index_create(struct arena *arena, struct shared_generation *words)
{
    struct index *index = index_make(arena, words);
    if (!index || index_begin_empty(index))
        return index;
    free(index);
    return NULL;
}

struct index *index_resume(struct arena *arena, struct shared_generation *words, uint64_t sum)
{
    struct index *index = index_make(arena, words);
    if (index)
        index->sum = sum;
    return index;
}

static void give_all(struct index *index)
{
    index_give_up(index->arena, index->words);
    for (uint32_t kept = 0; kept < SEGMENT_HASH_BITS; kept++) {
        arena_give(index->arena, index->kept[kept], directory_bytes(kept));
        index->kept[kept] = 0;
    }
}

void index_free(struct index *index)
{
    if (!index)
        return;
    give_all(index);
    free(index);
}

bool index_clear(struct index *index)
{
    uint64_t full = index->words->directory;
    if (!index_begin_empty(index))
        return false;
    uint64_t empty = index->words->directory;
    index->words->directory = full;
    give_all(index);
    index->words->directory = empty;
    return true;
}

void index_keep_directories(struct index *index)
{
    index->keeps_directories = true;
}

/* Lookup --------------------------------------------------------------------------------------- */

void index_probe_start(struct index_probe *probe, const struct index *index, uint32_t hash)
{
    probe->index = (struct index *)(uintptr_t)index; /* changed only if the caller changes it */
    segment_probe_start(&probe->in, segment_of(index, hash), hash);
}

void index_prefetch(const struct index *index, uint32_t hash)
{
    __builtin_prefetch(&segment_of(index, hash)->slots[hash & SEGMENT_HOME_MASK]);
}

bool index_probe_next(struct index_probe *probe, uint64_t *offset_bytes)
{
    return segment_probe_next(&probe->in, offset_bytes);
}

uint64_t index_moves(const struct index *index)
{
    return __atomic_load_n(&index->words->moves, __ATOMIC_ACQUIRE);
}

/* The segment of a probe, for a caller that may change the index. */
static struct index_segment *probed_segment(const struct index_probe *probe)
{
    return (struct index_segment *)(uintptr_t)probe->in.segment;
}

static uint32_t last_candidate(const struct index_probe *probe)
{
    return (probe->in.position - 1) & SEGMENT_HOME_MASK;
}

void index_probe_replace(struct index_probe *probe, uint64_t offset_bytes)
{
    slot *at = &probed_segment(probe)->slots[last_candidate(probe)];
    slot item = index_slot_of(probe->in.hash, offset_bytes);
    KV_ASSERT(slot_hash(*at) == probe->in.hash && index_slot_offset(item) == offset_bytes);
    probe->index->sum += item_sum_part(item) - item_sum_part(*at);
    store_slot(at, item);
}

void index_probe_remove(struct index_probe *probe)
{
    slot *slots = probed_segment(probe)->slots;
    uint32_t hole = last_candidate(probe);
    KV_ASSERT(slots[hole] != 0 && slot_hash(slots[hole]) == probe->in.hash);
    KV_ASSERT(probed_segment(probe)->count > 0 && probe->index->words->keys > 0);
    probe->index->sum -= item_sum_part(slots[hole]);
    begin_moves(probe->index);
    for (;;) {
        uint32_t next = (hole + 1) & SEGMENT_HOME_MASK;
        if (slots[next] == 0 || slot_distance(slots[next], next) == 0)
            break;
        store_slot(&slots[hole], slots[next]);
        hole = next;
    }
    store_slot(&slots[hole], 0);
    end_moves(probe->index);
    probed_segment(probe)->count--;
    probe->index->words->keys--;
    /* The item that followed the removed one has moved into its slot. */
    probe->in.position = last_candidate(probe);
    probe->in.distance--;
}

/* Growth --------------------------------------------------------------------------------------- */

static void segment_insert(struct index_segment *segment, slot item)
{
    slot *slots = segment->slots;
    uint32_t position = slot_hash(item) & SEGMENT_HOME_MASK;
    KV_ASSERT(segment->count < INDEX_SEGMENT_SLOTS && index_slot_offset(item) != 0);
    for (uint32_t distance = 0; slots[position] != 0; distance++) {
        uint32_t resident_distance = slot_distance(slots[position], position);
        if (resident_distance < distance) {
            slot displaced = slots[position];
            store_slot(&slots[position], item);
            item = displaced;
            distance = resident_distance;
        }
        position = (position + 1) & SEGMENT_HOME_MASK;
    }
    store_slot(&slots[position], item);
    segment->count++;
}

/* The index's sum has a part for each bound, and none for a segment without a bound. */
static void set_bound(struct index *index, struct index_segment *segment, uint64_t bound_ms)
{
    if (segment->expiry_bound_ms != SEGMENT_NO_EXPIRY) {
        KV_ASSERT(index->words->expiring_segments > 0);
        index->words->expiring_segments--;
        index->sum -= item_sum_part(segment->expiry_bound_ms);
    }
    if (bound_ms != SEGMENT_NO_EXPIRY) {
        index->words->expiring_segments++;
        index->sum += item_sum_part(bound_ms);
    }
    segment->expiry_bound_ms = bound_ms;
}

static bool directory_may_double(const struct index *index)
{
    uint32_t depth = depth_of(index);
    uint64_t entries = UINT64_C(2) << depth;
    return depth < SEGMENT_HASH_BITS &&
           (entries <= FREE_ENTRIES || entries <= index->words->segments * MAX_ENTRIES_PER_SEGMENT);
}

static bool directory_double(struct index *index)
{
    if (!directory_may_double(index))
        return false;
    uint64_t old = index->words->directory;
    uint32_t depth = shared_directory_depth(old);
    uint32_t reference = arena_take(index->arena, directory_bytes(depth + 1));
    if (!reference)
        return false;
    uint64_t doubled = shared_directory(reference, depth + 1);
    const uint32_t *from = entries_of(index, old);
    uint32_t *to = entries_of(index, doubled);
    for (uint64_t entry = UINT64_C(1) << depth; entry-- > 0;)
        to[2 * entry] = to[2 * entry + 1] = from[entry];
    __atomic_store_n(&index->words->directory, doubled, __ATOMIC_RELEASE);
    if (index->keeps_directories)
        index->kept[depth] = (uint32_t)(old >> 8);
    else
        arena_give(index->arena, (uint32_t)(old >> 8), directory_bytes(depth));
    return true;
}

/* Moves the items of `low` whose last bit of the segments' hash bits is 1 to `high`, which is
 * empty. */
static void move_high_items(struct index_segment *low, struct index_segment *high)
{
    slot items[INDEX_SEGMENT_SLOTS];
    uint32_t count = low->count;
    KV_ASSERT(low->depth == high->depth && high->count == 0);
    memcpy(items, low->slots, sizeof items);
    for (uint32_t i = 0; i < INDEX_SEGMENT_SLOTS; i++)
        store_slot(&low->slots[i], 0);
    low->count = 0;
    uint32_t split_bit = UINT32_C(1) << (SEGMENT_HASH_BITS - low->depth);
    for (uint32_t i = 0; i < INDEX_SEGMENT_SLOTS; i++)
        if (items[i] != 0)
            segment_insert(slot_hash(items[i]) & split_bit ? high : low, items[i]);
    KV_ASSERT(low->count + high->count == count);
}

/* Moves the items of the segment of `hash` whose next bit is 1 to a new segment. */
static bool split_segment(struct index *index, uint32_t hash)
{
    struct index_segment *low = segment_of(index, hash);
    if (low->depth == depth_of(index) && !directory_double(index))
        return false;
    uint32_t reference = segment_create(index, low->depth + 1);
    if (!reference)
        return false;
    struct index_segment *high = index_segment_at(index, reference);

    begin_moves(index);
    /* Scans of other processes read the depth: one that sees the new depth sees that `moves` has
     * changed. */
    __atomic_store_n(&low->depth, low->depth + 1, __ATOMIC_RELEASE);
    move_high_items(low, high);
    set_bound(index, high, low->expiry_bound_ms);
    index->words->segments++;

    uint32_t depth = depth_of(index);
    uint32_t *directory = entries_of(index, index->words->directory);
    uint64_t entries = UINT64_C(1) << (depth - low->depth);
    uint32_t split_bit = UINT32_C(1) << (SEGMENT_HASH_BITS - low->depth);
    uint64_t first = directory_entry(depth, hash | split_bit) & ~(entries - 1);
    for (uint64_t entry = first; entry < first + entries; entry++)
        __atomic_store_n(&directory[entry], reference, __ATOMIC_RELEASE);
    end_moves(index);
    return true;
}

bool index_reserve(struct index *index, uint32_t hash)
{
    /* A split may leave all items on one side: then the next bit decides. */
    while (segment_of(index, hash)->count >= SPLIT_ITEMS)
        if (!split_segment(index, hash))
            return segment_of(index, hash)->count < INDEX_SEGMENT_SLOTS;
    return true;
}

bool index_is_crowded(const struct index *index, uint32_t hash)
{
    const struct index_segment *segment = segment_of(index, hash);
    return segment->count >= INDEX_SEGMENT_SLOTS && segment->depth == depth_of(index) &&
           !directory_may_double(index);
}

void index_insert(struct index *index, uint32_t hash, uint64_t offset_bytes)
{
    slot item = index_slot_of(hash, offset_bytes);
    KV_ASSERT(offset_bytes != 0 && index_slot_offset(item) == offset_bytes);
    begin_moves(index);
    segment_insert(segment_of(index, hash), item);
    end_moves(index);
    index->words->keys++;
    index->sum += item_sum_part(item);
}

/* Walks in hash order -------------------------------------------------------------------------- */

size_t index_collect(const struct index *index, uint64_t from_hash, struct index_item *items,
                     size_t capacity, uint64_t *next_hash)
{
    *next_hash = INDEX_HASH_END;
    if (from_hash >= INDEX_HASH_END)
        return 0;
    const struct index_segment *segment = segment_of(index, (uint32_t)from_hash);
    *next_hash = segment_end(segment->depth, (uint32_t)from_hash);

    slot found[INDEX_SEGMENT_SLOTS];
    size_t count = segment_collect(segment, from_hash, found);

    if (count > capacity) {
        *next_hash = slot_hash(found[capacity]);
        count = capacity;
        while (count > 0 && slot_hash(found[count - 1]) == *next_hash)
            count--;
    }
    for (size_t i = 0; i < count; i++) {
        items[i].hash = slot_hash(found[i]);
        items[i].offset_bytes = index_slot_offset(found[i]);
    }
    return count;
}

/* Expiry --------------------------------------------------------------------------------------- */

void index_set_expiry_bound(struct index *index, uint32_t hash, uint64_t bound_ms)
{
    set_bound(index, segment_of(index, hash), bound_ms);
}

void index_note_expiry(struct index *index, uint32_t hash, uint64_t expiry_ms)
{
    if (expiry_ms < segment_of(index, hash)->expiry_bound_ms)
        index_set_expiry_bound(index, hash, expiry_ms);
}

uint64_t index_expiry_bound(const struct index *index, uint32_t hash)
{
    return segment_of(index, hash)->expiry_bound_ms;
}

uint64_t index_next_expiring(const struct index *index, uint64_t from_hash, uint64_t now_ms)
{
    if (index->words->expiring_segments == 0)
        return INDEX_HASH_END;
    uint64_t hash = from_hash;
    for (uint32_t looked = 0; hash < INDEX_HASH_END && looked < EXPIRY_LOOK_SEGMENTS; looked++) {
        const struct index_segment *segment = segment_of(index, (uint32_t)hash);
        if (segment->expiry_bound_ms <= now_ms)
            break;
        hash = segment_end(segment->depth, (uint32_t)hash);
    }
    return hash;
}

/* Facts ---------------------------------------------------------------------------------------- */

uint64_t index_count(const struct index *index)
{
    return index->words->keys;
}

uint64_t index_sum(const struct index *index)
{
    return index->sum;
}

uint64_t index_memory_bytes(const struct index *index)
{
    uint64_t bytes = sizeof *index + index->words->segments * sizeof(struct index_segment) +
                     directory_bytes(depth_of(index));
    for (uint32_t depth = 0; depth < SEGMENT_HASH_BITS; depth++)
        bytes += index->kept[depth] ? directory_bytes(depth) : 0;
    return bytes;
}
