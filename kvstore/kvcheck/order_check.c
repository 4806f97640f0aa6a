#include "kvstore/kvcheck/order_check.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/memory/copy.h"
#include "common/memory/cursor.h"
#include "kvstore/format/record.h"
#include "kvstore/format/sizes.h"
#include "kvstore/shared/segment.h"
#include "kvstore/shared/shared_order.h"

/* How often bytes are read again that a writer changes meanwhile, before that is a fault itself. */
#define STEADY_TRIES 10000u

/* What is wrong counts if it is at each of so many looks: a writer has changed the index, and is
 * about to change the order. */
#define FAULT_LOOKS    6u
#define FAULT_PAUSE_NS 60000000L

/* Faults of a file that are told. */
#define FAULTS_MAX 8u

/* Keys of one hash that are looked at; the index has no more (kvstore/order/key_source.c). */
#define SAME_HASH_MAX 16u

/* How often a place is looked at again in whose order something was changed during the look. Then
 * it is taken for sound: nobody can tell. */
#define DISTURBED_MAX 10000u

enum look {
    LOOK_SOUND,
    LOOK_FAULT,
    LOOK_DISTURBED,
    LOOK_END /* the file was replaced, or there is no order any more: see `state` */
};

/* A leaf as it was at one moment. */
struct leaf_copy {
    uint32_t count;
    uint32_t hashes[ORDER_LEAF_ITEMS];
    struct key_bounds bounds;
    uint8_t low[KVSTORE_MAX_KEY_BYTES];
    uint8_t high[KVSTORE_MAX_KEY_BYTES];
};

struct order_checking {
    struct running_store *live;
    const struct source *source;
    struct findings *findings;
    uint64_t generation;
    enum order_state state;
    unsigned faults;
    bool is_lost;     /* the last fault leaves nothing to go on with */
    uint64_t changes; /* of the order, at the last look */
    const char *what; /* is wrong there */
    uint64_t offset;  /* of the record concerned, or 0 */
    uint64_t seen;    /* keys of the leaf that was looked at last */
    struct leaf_copy *leaf;
};

/* The daemon's memory -------------------------------------------------------------------- */

static const struct shared_file *shared_file_of(const struct order_checking *check)
{
    const struct shared_store *shared = check->live->shared;
    return (const struct shared_file *)((const char *)shared + shared->files_offset) +
           check->source->identity.number;
}

static const struct shared_generation *checked_generation(const struct order_checking *check)
{
    return &shared_file_of(check)->states[check->generation % 2];
}

static struct order_view view_of(const struct order_checking *check)
{
    uint64_t shared_bytes = __atomic_load_n(&check->live->shared->shared_bytes, __ATOMIC_ACQUIRE);
    return (struct order_view){(const uint8_t *)check->live->shared,
                               at_most(shared_bytes, check->live->shared_bytes)};
}

static bool is_replaced(const struct order_checking *check)
{
    return __atomic_load_n(&shared_file_of(check)->generation, __ATOMIC_ACQUIRE) !=
           check->generation;
}

/* Waits a little for what a writer does, but at first. False: it has been tried too often, or the
 * file was replaced. */
static bool may_read_again(struct order_checking *check, unsigned *tries)
{
    running_store_grow(check->live);
    if (*tries > 0)
        sched_yield();
    if (is_replaced(check)) {
        check->state = ORDER_REPLACED;
        return false;
    }
    return ++*tries < STEADY_TRIES;
}

/* Bytes could not be had as they were at one moment: a fault, or, if a writer changes them all the
 * while, none that could be told. */
static bool give_up(struct order_checking *check, const char *what, bool is_changing)
{
    if (is_changing && check->state == ORDER_CHECKED)
        check->state = ORDER_UNFINISHED;
    check->what = what;
    check->offset = 0;
    check->is_lost = true;
    return false;
}

/* NULL: it cannot be found, or a writer moves it. */
static const struct index_segment *find_segment(const struct order_checking *check, uint32_t hash)
{
    struct order_view view = view_of(check);
    uint64_t directory = __atomic_load_n(&checked_generation(check)->directory, __ATOMIC_ACQUIRE);
    uint64_t offset = shared_directory_offset(directory);
    uint32_t depth = shared_directory_depth(directory);
    if (depth > SEGMENT_HASH_BITS)
        return NULL;
    offset += ((uint64_t)hash >> (SEGMENT_HASH_BITS - depth)) * sizeof(uint32_t);
    if (offset > view.usable_bytes || view.usable_bytes - offset < sizeof(uint32_t))
        return NULL;
    const uint32_t *at = (const void *)(view.base + offset);
    uint32_t reference = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    return order_at(&view, reference, sizeof(struct index_segment));
}

static uint64_t load_moves(const struct order_checking *check)
{
    return __atomic_load_n(&checked_generation(check)->moves, __ATOMIC_ACQUIRE);
}

/* Copies the items of the segment that has `hash`, from it on, at one moment; *end is the first
 * hash behind them. False: LOOK_END, or a fault. */
static bool copy_index_items(struct order_checking *check, uint64_t hash,
                             slot items[INDEX_SEGMENT_SLOTS], size_t *count, uint64_t *end)
{
    for (unsigned tries = 0; may_read_again(check, &tries);) {
        uint64_t moves = load_moves(check);
        const struct index_segment *segment = find_segment(check, (uint32_t)hash);
        if (moves % 2 != 0 || !segment)
            continue;
        uint32_t depth = __atomic_load_n(&segment->depth, __ATOMIC_ACQUIRE);
        *count = segment_collect(segment, hash, items);
        order_fence_reads();
        if (load_moves(check) != moves || depth > SEGMENT_HASH_BITS)
            continue;
        *end = segment_end(depth, (uint32_t)hash);
        return true;
    }
    return give_up(check, "the index cannot be read", load_moves(check) % 2 != 0);
}

/* The offsets of the records with the hash, at one moment. */
static bool probe_index(struct order_checking *check, uint32_t hash,
                        uint64_t offsets[SAME_HASH_MAX], uint32_t *count)
{
    for (unsigned tries = 0; may_read_again(check, &tries);) {
        uint64_t moves = load_moves(check);
        const struct index_segment *segment = find_segment(check, hash);
        struct segment_probe probe;
        if (moves % 2 != 0 || !segment)
            continue;
        *count = 0;
        segment_probe_start(&probe, segment, hash);
        while (*count < SAME_HASH_MAX && segment_probe_next(&probe, &offsets[*count]))
            ++*count;
        order_fence_reads();
        if (load_moves(check) == moves)
            return true;
    }
    return give_up(check, "the index cannot be read", load_moves(check) % 2 != 0);
}

/* The key of the record that the index has with the hash. False: it cannot be read here; if it is
 * damaged, others tell of it. */
static bool read_indexed_key(const struct order_checking *check, uint32_t hash, uint64_t offset,
                             struct kv_slice *key)
{
    const struct source *source = check->source;
    struct record record;
    uint64_t size_bytes;
    if (offset < FILE_HEADER_BYTES || offset >= source->map_bytes ||
        record_parse(source->map + offset, source->map_bytes - offset, &record, &size_bytes) !=
            RECORD_VALID ||
        record.key.size == 0)
        return false;
    *key = record.key;
    return keyhash_index(keyhash(&check->live->shared->hash_key, record.key)) == hash;
}

static struct kv_slice keep_separator(uint8_t *room, struct kv_slice separator)
{
    copy_bytes(room, separator.data, separator.size);
    return kv_slice(room, separator.size);
}

/* Copies the leaf in which the point is, with the bounds if they are wanted. */
static bool copy_leaf_at(struct order_checking *check, struct key_point point, bool with_bounds)
{
    struct leaf_copy *copy = check->leaf;
    copy->bounds = (struct key_bounds){.is_last = true};
    for (unsigned tries = 0; may_read_again(check, &tries);) {
        const struct shared_order *order = &shared_file_of(check)->order;
        struct order_view view = view_of(check);
        struct order_path path;
        uint64_t changes = __atomic_load_n(&order->changes, __ATOMIC_ACQUIRE);
        uint64_t root = __atomic_load_n(&order->root, __ATOMIC_RELAXED);
        if (changes % 2 != 0)
            continue;
        if (root == 0) {
            check->state = ORDER_UNFINISHED;
            return false;
        }
        if (!order_walk(&view, root, point, &path))
            continue;
        const struct order_leaf *leaf = order_at(&view, path.leaf, sizeof *leaf);
        copy->count = __atomic_load_n(&leaf->count, __ATOMIC_RELAXED);
        if (copy->count > ORDER_LEAF_ITEMS)
            continue;
        memcpy(copy->hashes, leaf->hashes, copy->count * sizeof copy->hashes[0]);
        copy->bounds = path.bounds;
        if (with_bounds) {
            copy->bounds.low = keep_separator(copy->low, path.bounds.low);
            copy->bounds.high = keep_separator(copy->high, path.bounds.high);
        }
        order_fence_reads();
        check->changes = changes;
        if (__atomic_load_n(&order->changes, __ATOMIC_RELAXED) == changes)
            return true;
    }
    return give_up(check, "a node of the order makes no sense",
                   shared_file_of(check)->order.changes % 2 != 0);
}

/* What it is for a look that bytes could not be had. */
static enum look unsteady(const struct order_checking *check)
{
    return check->state == ORDER_CHECKED ? LOOK_FAULT : LOOK_END;
}

static enum look find_fault(struct order_checking *check, const char *what, uint64_t offset)
{
    order_fence_reads();
    if (__atomic_load_n(&shared_file_of(check)->order.changes, __ATOMIC_RELAXED) != check->changes)
        return LOOK_DISTURBED;
    check->what = what;
    check->offset = offset;
    return LOOK_FAULT;
}

/* Looks ---------------------------------------------------------------------------------------- */

/* The keys of the leaf that have one hash, in their order, as the index has them. */
struct same_hash {
    uint32_t count;
    bool is_known; /* all of them could be read */
    struct kv_slice keys[SAME_HASH_MAX];
    uint64_t offsets[SAME_HASH_MAX];
};

static bool find_same_hash(struct order_checking *check, uint32_t hash, struct same_hash *same)
{
    uint64_t offsets[SAME_HASH_MAX];
    uint32_t count;
    *same = (struct same_hash){.is_known = true};
    if (!probe_index(check, hash, offsets, &count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct kv_slice key;
        if (!read_indexed_key(check, hash, offsets[i], &key)) {
            same->is_known = false;
            continue;
        }
        if (!key_is_within(key, &check->leaf->bounds))
            continue;
        uint32_t at = same->count++;
        for (; at > 0 && key_compare(key, same->keys[at - 1]) < 0; at--) {
            same->keys[at] = same->keys[at - 1];
            same->offsets[at] = same->offsets[at - 1];
        }
        same->keys[at] = key;
        same->offsets[at] = offsets[i];
    }
    return true;
}

static void count_items(const struct leaf_copy *leaf, uint32_t item, uint32_t *rank, uint32_t *all)
{
    *rank = *all = 0;
    for (uint32_t i = 0; i < leaf->count; i++) {
        bool same = leaf->hashes[i] == leaf->hashes[item];
        *all += same;
        *rank += same && i < item;
    }
}

/* Looks once at the leaf in which the point is. */
static enum look look_at_leaf(struct order_checking *check, struct key_point point)
{
    const struct leaf_copy *leaf = check->leaf;
    struct kv_slice before = kv_slice(NULL, 0);
    check->offset = 0;
    check->seen = 0;
    check->is_lost = false;
    if (!copy_leaf_at(check, point, true))
        return unsteady(check);
    if (!leaf->bounds.is_last && key_compare(leaf->bounds.low, leaf->bounds.high) >= 0)
        return find_fault(check, "the separators of the order are not in order", 0);
    for (uint32_t item = 0; item < leaf->count; item++) {
        struct same_hash same;
        uint32_t rank, all;
        if (!find_same_hash(check, leaf->hashes[item], &same))
            return unsteady(check);
        count_items(leaf, item, &rank, &all);
        check->seen++;
        if (!same.is_known)
            continue;
        if (same.count != all)
            return find_fault(check,
                              same.count < all ? "the order has an item without a key"
                                               : "the order does not have the key",
                              same.count > 0 ? same.offsets[0] : 0);
        if (key_compare(before, same.keys[rank]) >= 0)
            return find_fault(check, "the key is not in its place in the order",
                              same.offsets[rank]);
        before = same.keys[rank];
    }
    return LOOK_SOUND;
}

/* Looks once whether the order has the key that the index has. */
static enum look look_for_key(struct order_checking *check, uint32_t hash, uint64_t offset)
{
    struct kv_slice key;
    uint64_t offsets[SAME_HASH_MAX];
    uint32_t count;
    check->is_lost = false;
    if (!read_indexed_key(check, hash, offset, &key))
        return LOOK_SOUND;
    if (!copy_leaf_at(check, key_point(key, KEY_BEHIND), false))
        return unsteady(check);
    for (uint32_t i = 0; i < check->leaf->count; i++)
        if (check->leaf->hashes[i] == hash)
            return LOOK_SOUND; /* whether it is the key's was seen with the leaf */
    if (!probe_index(check, hash, offsets, &count))
        return unsteady(check);
    for (uint32_t i = 0; i < count; i++)
        if (offsets[i] == offset)
            return find_fault(check, "the order does not have the key", offset);
    return LOOK_SOUND; /* it has been deleted, or overwritten */
}

/* Tells of a fault that has stayed. */
static void tell_fault(struct order_checking *check)
{
    findings_add(check->findings, REMEDY_RESTART, check->source->name.text, check->offset, "%s%s",
                 check->what, ++check->faults == FAULTS_MAX ? " (the rest was not looked at)" : "");
}

/* Where to look. */
struct order_place {
    struct key_point point; /* in a leaf, */
    uint32_t hash;          /* or for the key of a record */
    uint64_t offset;        /* 0: in the leaf */
};

static enum look look_once(struct order_checking *check, const struct order_place *place)
{
    return place->offset == 0 ? look_at_leaf(check, place->point)
                              : look_for_key(check, place->hash, place->offset);
}

/* Looks until the place is found sound, or what is wrong has stayed, and tells of that. */
static enum look look_at_place(struct order_checking *check, const struct order_place *place)
{
    unsigned faults = 0, disturbed = 0;
    while (disturbed < DISTURBED_MAX) {
        enum look look = look_once(check, place);
        disturbed += look == LOOK_DISTURBED;
        if (look == LOOK_FAULT && ++faults == FAULT_LOOKS)
            tell_fault(check);
        if (look == LOOK_SOUND || look == LOOK_END || faults == FAULT_LOOKS)
            return look;
        if (look == LOOK_FAULT)
            nanosleep(&(struct timespec){.tv_nsec = FAULT_PAUSE_NS}, NULL);
    }
    return LOOK_SOUND;
}

/* Walks all leaves. */
static void check_leaves(struct order_checking *check, uint64_t *keys)
{
    uint8_t *edge = NULL;
    struct order_place place = {.point = key_point(kv_slice(NULL, 0), KEY_BEFORE)};
    bool more = true;
    while (more && check->faults < FAULTS_MAX) {
        if (look_at_place(check, &place) == LOOK_END)
            break;
        *keys += check->seen;
        const struct key_bounds *bounds = &check->leaf->bounds;
        more = !bounds->is_last && key_compare(place.point.key, bounds->high) < 0;
        uint8_t *next = more ? realloc(edge, bounds->high.size) : NULL;
        if (more && !next) {
            check->state = ORDER_LACKS_MEMORY;
            break;
        }
        if (more) {
            edge = next;
            memcpy(edge, bounds->high.data, bounds->high.size);
            place.point = key_point(kv_slice(edge, bounds->high.size), KEY_BEHIND);
        }
    }
    free(edge);
}

/* Looks for each key of the index. */
static void check_index(struct order_checking *check)
{
    slot items[INDEX_SEGMENT_SLOTS];
    size_t count;
    for (uint64_t hash = 0, end; hash >> SEGMENT_HASH_BITS == 0; hash = end) {
        if (!copy_index_items(check, hash, items, &count, &end)) {
            if (check->state == ORDER_CHECKED)
                tell_fault(check);
            return;
        }
        for (size_t i = 0; i < count; i++) {
            struct order_place place = {.hash = slot_hash(items[i]),
                                        .offset = index_slot_offset(items[i])};
            enum look look = look_at_place(check, &place);
            if (look == LOOK_END || (look == LOOK_FAULT && check->is_lost) ||
                check->faults >= FAULTS_MAX)
                return;
        }
    }
}

enum order_state order_check(struct running_store *live, const struct source *source,
                             struct findings *findings, uint64_t *keys)
{
    struct order_checking check = {
        .live = live, .source = source, .findings = findings, .state = ORDER_CHECKED};
    *keys = 0;
    if (!live->shared || source->identity.number >= live->datafiles)
        return ORDER_NONE;
    const struct shared_file *file = shared_file_of(&check);
    if (__atomic_load_n(&file->order.instance, __ATOMIC_ACQUIRE) !=
        __atomic_load_n(&live->shared->instance, __ATOMIC_ACQUIRE))
        return ORDER_NONE;
    check.generation = __atomic_load_n(&file->generation, __ATOMIC_ACQUIRE);
    if (checked_generation(&check)->salt != source->identity.salt)
        return ORDER_REPLACED;
    check.leaf = malloc(sizeof *check.leaf);
    if (!check.leaf)
        return ORDER_LACKS_MEMORY;
    check_leaves(&check, keys);
    if (check.state == ORDER_CHECKED && !check.is_lost && check.faults < FAULTS_MAX)
        check_index(&check);
    free(check.leaf);
    return check.state;
}
