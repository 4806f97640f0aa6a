#include "clientk/direct/direct_range.h"

#include <stdlib.h>
#include <string.h>

#include "clientk/base/value_memory.h"
#include "clientk/direct/direct_read.h"
#include "common/assert/assert.h"
#include "common/memory/copy.h"
#include "common/memory/cursor.h"
#include "common/memory/machine_sizes.h"
#include "common/time/pause.h"
#include "kvstore/format/sizes.h"
#include "kvstore/shared/shared_order.h"
#include "wire/operation.h"

#define RANGE_DEFAULT_LIMIT 1000u
#define RANGE_MAX_LIMIT     4096u

/* A page that has this many bytes takes no further entry. */
#define RANGE_FULL_BYTES (UINT64_C(1) << 20)

/* How many records and leaves a page looks at for each entry that it may have. */
#define RANGE_LOOKS_PER_ENTRY 64u

/* How often a page begins anew, and a look at a tree or an index, which changes meanwhile. */
#define PAGE_TRIES 4u
#define LOOK_TRIES 64u

/* After so many looks a page is made sure of as far as it has come: it ends there if it is
 * disturbed later, and has more bytes than this. A smaller one begins anew, or goes by message, so
 * that it shows transactions as of one moment. */
#ifndef LOOKS_TO_LOSE
#define LOOKS_TO_LOSE 16u
#endif
#ifndef RANGE_WHOLE_BYTES
#define RANGE_WHOLE_BYTES 8192u
#endif

/* Pages that go by message, at most, after one that was disturbed before it had come anywhere. */
#define PAGES_ASKED_MAX 63u

/* Items of a leaf that are looked at at once for a point between them. */
#define PIVOTS 7u

/* Items that are found at once, beyond those that the file's share of the page takes. */
#define ITEMS_AHEAD 4u

/* Records of one hash that are looked at. */
#define SAME_HASH_MAX 16u

/* In the place of an item's offset, which is a multiple of 8. */
#define ITEM_GONE    UINT64_C(0)
#define ITEM_SEVERAL UINT64_C(1) /* several keys have the hash */
#define ITEM_UNKNOWN UINT64_C(2) /* it was not looked for yet */

enum range_outcome {
    OUTCOME_FOUND,
    OUTCOME_END,   /* there is nothing any more; of an item: it is gone */
    OUTCOME_AGAIN, /* the page is to begin anew */
    OUTCOME_MORE,  /* as OUTCOME_AGAIN; more of the object is needed */
    OUTCOME_ASK,   /* the page has to go by message */
    OUTCOME_NO_MEMORY
};

/* Where the range is in one data file. */
struct file_place {
    struct direct_look look; /* since the leaf was copied; of the leaf `number` and `generation` */
    uint64_t generation;     /* of all leaves of a page */
    bool has_leaf;
    uint64_t changes; /* of the order, when the leaf was copied */
    uint32_t hashes[ORDER_LEAF_ITEMS];
    uint64_t offsets[ORDER_LEAF_ITEMS]; /* of records */
    uint32_t count;
    uint32_t at;              /* the next item; in a reverse range one more */
    struct key_bounds bounds; /* of the leaf, in `low` and `high` */
    struct clientk_value low, high;
    struct clientk_value edge; /* of the last leaf, where the range goes on */
    struct clientk_value room; /* for a record that is read with calls */
    struct direct_found found; /* the next record */
};

struct range_page {
    struct direct_store *store;
    const struct direct_view *view;
    const struct direct_range *range;
    struct key_point begin, end;
    uint32_t share;    /* entries of one data file, about */
    uint32_t together; /* items that are found at once */
    uint64_t limit;
    uint64_t entries_left, looks_left;
    uint64_t transacting;
    struct clientk_value *entries;
    size_t bytes;              /* of them */
    size_t sure_bytes;         /* of those that count whatever comes */
    struct kv_slice last;      /* the key of the last one, in `entries`; empty: there is none */
    struct file_place *places; /* of each data file */
    struct file_place **heap;  /* heap[0] has the next key of all */
    uint32_t heap_count;
    bool is_cut;                   /* the page ends where it was disturbed */
    struct clientk_value rooms[2]; /* for records that are compared */
};

/* Leaves --------------------------------------------------------------------------------------- */

static bool keep_copy(struct clientk_value *copy, struct kv_slice *slice)
{
    if (!value_reserve(copy, slice->size))
        return false;
    copy_bytes(copy->data, slice->data, slice->size);
    *slice = kv_slice(copy->data, slice->size);
    return true;
}

static enum range_outcome copy_leaf(struct file_place *place, struct order_path *path,
                                    const struct order_view *view)
{
    const struct order_leaf *leaf = order_at(view, path->leaf, sizeof *leaf);
    uint32_t count = __atomic_load_n(&leaf->count, __ATOMIC_RELAXED);
    if (count > ORDER_LEAF_ITEMS)
        return OUTCOME_ASK;
    memcpy(place->hashes, leaf->hashes, count * sizeof leaf->hashes[0]);
    place->count = count;
    place->generation = place->look.generation;
    place->has_leaf = true;
    for (uint32_t item = 0; item < count; item++)
        place->offsets[item] = ITEM_UNKNOWN;
    place->bounds = path->bounds;
    return keep_copy(&place->low, &place->bounds.low) &&
                   keep_copy(&place->high, &place->bounds.high)
               ? OUTCOME_FOUND
               : OUTCOME_NO_MEMORY;
}

static bool order_is_unchanged(const struct file_place *place)
{
    order_fence_reads();
    return __atomic_load_n(&place->look.file->order.changes, __ATOMIC_RELAXED) == place->changes;
}

static enum range_outcome take_leaf_once(struct range_page *page, struct file_place *place,
                                         struct key_point point)
{
    struct direct_look *look = &place->look;
    const struct order_view view = {
        page->view->base, atomic_load_explicit(&page->view->usable_bytes, memory_order_relaxed)};
    struct order_path path;
    (void)direct_look_begin(page->store, page->view, look->number, look);
    const struct shared_order *order = &look->file->order;
    if (look->transacting != page->transacting ||
        (place->has_leaf && look->generation != place->generation))
        return OUTCOME_AGAIN;
    place->changes = __atomic_load_n(&order->changes, __ATOMIC_ACQUIRE);
    uint64_t root = __atomic_load_n(&order->root, __ATOMIC_RELAXED);
    if (place->changes % 2 != 0)
        return OUTCOME_END;
    if (root == 0 || __atomic_load_n(&order->instance, __ATOMIC_ACQUIRE) != page->store->instance)
        return OUTCOME_ASK;
    enum range_outcome outcome =
        order_walk(&view, root, point, &path) ? copy_leaf(place, &path, &view) : OUTCOME_MORE;
    return order_is_unchanged(place) ? outcome : OUTCOME_END;
}

/* Copies the leaf in which the point is, or whose end it is, as it was at one moment. */
static enum range_outcome take_leaf(struct range_page *page, struct file_place *place,
                                    struct key_point point)
{
    enum range_outcome outcome = OUTCOME_END; /* it changes at this moment */
    for (unsigned tries = 0; tries < LOOK_TRIES && outcome == OUTCOME_END; tries++) {
        if (tries > 0)
            pause_cpu();
        outcome = take_leaf_once(page, place, point);
    }
    return outcome == OUTCOME_END ? OUTCOME_ASK : outcome;
}

/* Items ---------------------------------------------------------------------------------------- */

/* Items of a leaf: from `begin` on, each `step`th one. */
struct some_items {
    uint32_t begin, end, step;
};

static void prefetch_items(const struct range_page *page, struct file_place *place,
                           struct some_items some)
{
    for (uint32_t item = some.begin; item < some.end; item += some.step) {
        uint32_t hash = place->hashes[item];
        const struct index_segment *segment = direct_look_segment(&place->look, page->view, hash);
        if (segment)
            __builtin_prefetch(&segment->slots[hash & SEGMENT_HOME_MASK]);
    }
}

static void prefetch_item_records(const struct range_page *page, const struct file_place *place,
                                  struct some_items some)
{
    const struct direct_log *log =
        direct_store_known_log(page->store, place->look.number, place->look.generation);
    for (uint32_t item = some.begin; log && log->map && item < some.end; item += some.step) {
        uint64_t offset = place->offsets[item];
        if (offset <= ITEM_UNKNOWN || offset >= log->map_bytes)
            continue;
        __builtin_prefetch(log->map + offset);
        __builtin_prefetch(log->map + offset + CACHE_LINE_BYTES);
    }
}

/* The offsets of the records with the hash, at most SAME_HASH_MAX. */
static enum range_outcome probe_hash(const struct range_page *page, struct file_place *place,
                                     uint32_t hash, uint64_t offsets[SAME_HASH_MAX],
                                     uint32_t *count)
{
    struct segment_probe probe;
    const struct index_segment *segment = direct_look_segment(&place->look, page->view, hash);
    *count = 0;
    if (!segment)
        return place->look.needs_more ? OUTCOME_MORE : OUTCOME_ASK;
    segment_probe_start(&probe, segment, hash);
    while (*count < SAME_HASH_MAX && segment_probe_next(&probe, &offsets[*count]))
        ++*count;
    return OUTCOME_FOUND;
}

/* Begins to look at the index of the leaf's generation. False: items are being moved. */
static bool begin_probes(struct file_place *place)
{
    place->look.moves = __atomic_load_n(&place->look.state->moves, __ATOMIC_ACQUIRE);
    return place->look.moves % 2 == 0;
}

static bool probes_hold(const struct file_place *place)
{
    order_fence_reads();
    return __atomic_load_n(&place->look.state->moves, __ATOMIC_ACQUIRE) == place->look.moves;
}

static enum range_outcome find_items_once(const struct range_page *page, struct file_place *place,
                                          struct some_items some)
{
    enum range_outcome outcome = OUTCOME_FOUND;
    if (!begin_probes(place))
        return OUTCOME_END;
    for (uint32_t item = some.begin; item < some.end && outcome == OUTCOME_FOUND;
         item += some.step) {
        uint64_t offsets[SAME_HASH_MAX];
        uint32_t count;
        outcome = probe_hash(page, place, place->hashes[item], offsets, &count);
        place->offsets[item] = count == 0 ? ITEM_GONE : count == 1 ? offsets[0] : ITEM_SEVERAL;
    }
    if (probes_hold(place))
        return outcome;
    for (uint32_t item = some.begin; item < some.end; item += some.step)
        place->offsets[item] = ITEM_UNKNOWN;
    return OUTCOME_END;
}

/* Finds some items in the index: fewer, the first ones, the more often somebody moves items
 * meanwhile; with `backwards`, the last ones. */
static enum range_outcome find_items(const struct range_page *page, struct file_place *place,
                                     struct some_items some, bool backwards)
{
    enum range_outcome outcome = OUTCOME_END;
    prefetch_items(page, place, some);
    for (unsigned tries = 0; tries < LOOK_TRIES && outcome == OUTCOME_END; tries++) {
        if (tries > 0) {
            uint32_t half = (some.end - some.begin + 1) / 2;
            pause_cpu();
            if (backwards)
                some.begin = some.end - half;
            else
                some.end = some.begin + half;
        }
        outcome = find_items_once(page, place, some);
    }
    if (outcome == OUTCOME_FOUND)
        prefetch_item_records(page, place, some);
    return outcome == OUTCOME_END ? OUTCOME_ASK : outcome;
}

/* Finds the item, and those behind it, or before, that the page may need. */
static enum range_outcome find_items_from(const struct range_page *page, struct file_place *place,
                                          uint32_t item)
{
    uint32_t wanted = page->together;
    struct some_items some = {item, item + 1, 1};
    if (page->range->reverse)
        some.begin = wanted > item ? 0 : item + 1 - wanted;
    else
        some.end = wanted > place->count - item ? place->count : item + wanted;
    return find_items(page, place, some, page->range->reverse);
}

static enum range_outcome unread_record(const struct file_place *place)
{
    return direct_look_is_current(&place->look) ? OUTCOME_ASK : OUTCOME_AGAIN;
}

/* Copies the key of a record that may be overwritten to the room. */
static enum range_outcome keep_own_key(const struct range_page *page, uint32_t hash,
                                       struct clientk_value *room, struct direct_found *found)
{
    struct kv_slice *key = &found->record.key;
    if (found->log->map) {
        if (!value_reserve(room, key->size))
            return OUTCOME_NO_MEMORY;
        memcpy(room->data, key->data, key->size);
        key->data = room->data;
    }
    return direct_found_stays(page->store, hash, found) ? OUTCOME_FOUND : OUTCOME_AGAIN;
}

/* A record at `offset` that the index had for `hash`. */
struct range_candidate {
    uint32_t hash;
    uint64_t offset;
};

/* Parses the candidate's record. OUTCOME_END: its key is none of the leaf. */
static enum range_outcome read_candidate_record(const struct range_page *page,
                                                const struct file_place *place,
                                                struct range_candidate candidate,
                                                struct clientk_value *room,
                                                struct direct_found *found)
{
    if (direct_look_record(page->store, &place->look, candidate.offset, !page->range->keys_only,
                           room, found) != RECORD_VALID)
        return unread_record(place);
    if (found->record.in_extent) {
        enum range_outcome kept = keep_own_key(page, candidate.hash, room, found);
        if (kept != OUTCOME_FOUND)
            return kept;
    }
    return key_is_within(found->record.key, &place->bounds) ? OUTCOME_FOUND : OUTCOME_END;
}

/* How many of the records at `offsets` are of the leaf's keys and before the one at `offset`;
 * *within: how many are of the leaf's keys. */
static enum range_outcome rank_candidate(struct range_page *page, const struct file_place *place,
                                         uint32_t hash, const uint64_t *offsets, uint32_t count,
                                         uint32_t at, uint32_t *before, uint32_t *within)
{
    struct direct_found one, other;
    *before = *within = 0;
    enum range_outcome is_within = read_candidate_record(
        page, place, (struct range_candidate){hash, offsets[at]}, &page->rooms[0], &one);
    if (is_within != OUTCOME_FOUND)
        return is_within;
    for (uint32_t i = 0; i < count; i++) {
        enum range_outcome outcome = read_candidate_record(
            page, place, (struct range_candidate){hash, offsets[i]}, &page->rooms[1], &other);
        if (outcome != OUTCOME_FOUND && outcome != OUTCOME_END)
            return outcome;
        *within += outcome == OUTCOME_FOUND;
        *before += outcome == OUTCOME_FOUND && key_compare(other.record.key, one.record.key) < 0;
    }
    return OUTCOME_FOUND;
}

/* Several keys have the hash of `item`: those of the leaf follow each other there as in order. */
__attribute__((noinline)) static enum range_outcome
choose_record(struct range_page *page, struct file_place *place, uint32_t item, uint64_t *offset)
{
    uint64_t offsets[SAME_HASH_MAX];
    uint32_t count = 0, rank = 0, all = 0;
    for (uint32_t i = 0; i < place->count; i++) {
        bool same = place->hashes[i] == place->hashes[item];
        all += same;
        rank += same && i < item;
    }
    enum range_outcome outcome = OUTCOME_END;
    for (unsigned tries = 0; tries < LOOK_TRIES && outcome == OUTCOME_END; tries++) {
        if (begin_probes(place))
            outcome = probe_hash(page, place, place->hashes[item], offsets, &count);
        if (!probes_hold(place))
            outcome = OUTCOME_END;
    }
    if (outcome != OUTCOME_FOUND)
        return outcome == OUTCOME_END ? OUTCOME_ASK : outcome;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before, within;
        outcome =
            rank_candidate(page, place, place->hashes[item], offsets, count, i, &before, &within);
        if (outcome == OUTCOME_END)
            continue;
        if (outcome == OUTCOME_FOUND && within != all) /* one has come or gone since */
            outcome = OUTCOME_AGAIN;
        if (outcome != OUTCOME_FOUND)
            return outcome;
        *offset = offsets[i];
        if (before == rank)
            return OUTCOME_FOUND;
    }
    return OUTCOME_AGAIN;
}

/* Reads the item's record. OUTCOME_END: the item is gone. */
static enum range_outcome read_item(struct range_page *page, struct file_place *place,
                                    uint32_t item, struct clientk_value *room,
                                    struct direct_found *found)
{
    enum range_outcome outcome = OUTCOME_FOUND;
    if (place->offsets[item] == ITEM_UNKNOWN)
        outcome = find_items_from(page, place, item);
    if (outcome != OUTCOME_FOUND)
        return outcome;
    uint64_t offset = place->offsets[item];
    if (offset == ITEM_GONE)
        return OUTCOME_END;
    if (offset == ITEM_SEVERAL)
        outcome = choose_record(page, place, item, &offset);
    const struct range_candidate candidate = {place->hashes[item], offset};
    return outcome == OUTCOME_FOUND ? read_candidate_record(page, place, candidate, room, found)
                                    : outcome;
}

/* Reads the first item from *item on that is there. OUTCOME_END: none before `end` is. */
static enum range_outcome read_item_from(struct range_page *page, struct file_place *place,
                                         uint32_t *item, uint32_t end, struct direct_found *found)
{
    enum range_outcome outcome = OUTCOME_END;
    for (; *item < end && outcome == OUTCOME_END; *item += outcome == OUTCOME_END)
        outcome = read_item(page, place, *item, &page->rooms[0], found);
    return outcome;
}

/* How many items of the leaf are before the point. They are found a few at a time, so that the
 * memory in which they lie is waited for once: what the leaf has is exact as long as the order does
 * not change. OUTCOME_END: it has changed. */
static enum range_outcome find_rank(struct range_page *page, struct file_place *place,
                                    struct key_point point, uint32_t *rank)
{
    uint32_t low = 0, high = place->count;
    page->together = 1;
    while (low < high) {
        uint32_t from = low, step = (high - low) / (PIVOTS + 1) + 1;
        uint32_t first = 0, behind = (high - low) / step; /* of the pivots, those not compared */
        enum range_outcome outcome =
            find_items(page, place, (struct some_items){low + step - 1, high, step}, false);
        while (outcome == OUTCOME_FOUND && first < behind) {
            uint32_t pivot = (first + behind) / 2;
            uint32_t middle = from + (pivot + 1) * step - 1, at = middle;
            struct direct_found found;
            outcome = read_item_from(page, place, &at, high, &found);
            if (outcome == OUTCOME_FOUND && key_is_before(found.record.key, point)) {
                low = at + 1;
                first = (low - from) / step;
            } else if (outcome == OUTCOME_FOUND || outcome == OUTCOME_END) {
                outcome = OUTCOME_FOUND;
                high = middle;
                behind = pivot;
            }
        }
        if (outcome != OUTCOME_FOUND)
            return outcome;
    }
    *rank = low;
    return order_is_unchanged(place) ? OUTCOME_FOUND : OUTCOME_END;
}

/* Files ---------------------------------------------------------------------------------------- */

/* Takes the leaf of `leaf_point`, and goes to `point` in it; without a look at its keys if one of
 * its ends is there. */
static enum range_outcome go_to(struct range_page *page, struct file_place *place,
                                struct key_point leaf_point, struct key_point point, bool from_edge)
{
    enum range_outcome outcome = OUTCOME_END;
    for (unsigned tries = 0; tries < LOOK_TRIES && outcome == OUTCOME_END; tries++) {
        outcome = take_leaf(page, place, leaf_point);
        if (outcome != OUTCOME_FOUND)
            return outcome;
        bool reverse = page->range->reverse;
        struct kv_slice end = reverse ? place->bounds.high : place->bounds.low;
        place->at = reverse ? place->count : 0;
        if (from_edge && !(reverse && place->bounds.is_last) && kv_slice_equal(end, point.key))
            return OUTCOME_FOUND;
        outcome = find_rank(page, place, point, &place->at);
    }
    return outcome == OUTCOME_END ? OUTCOME_ASK : outcome;
}

/* Goes on to the leaf behind, or before. OUTCOME_END: there is none. */
static enum range_outcome next_leaf(struct range_page *page, struct file_place *place)
{
    bool reverse = page->range->reverse;
    struct kv_slice edge = reverse ? place->bounds.low : place->bounds.high;
    if (reverse ? edge.size == 0 : place->bounds.is_last)
        return OUTCOME_END;
    if (page->looks_left == 0) /* leaves without end: the object is damaged */
        return OUTCOME_ASK;
    page->looks_left--;
    if (!keep_copy(&place->edge, &edge))
        return OUTCOME_NO_MEMORY;
    return go_to(page, place, key_point(edge, reverse ? KEY_BEFORE : KEY_BEHIND),
                 key_point(edge, KEY_BEFORE), true);
}

/* Returns true if the key may follow the last entry. */
static bool key_follows(const struct range_page *page, struct kv_slice key)
{
    if (page->last.size == 0)
        return true;
    int order = key_compare(key, page->last);
    return page->range->reverse ? order < 0 : order > 0;
}

/* Goes on to the file's next key. OUTCOME_END: there is none within the range. */
static enum range_outcome next_key(struct range_page *page, struct file_place *place)
{
    bool reverse = page->range->reverse;
    enum range_outcome outcome = OUTCOME_END;
    page->together = page->share + ITEMS_AHEAD;
    while (outcome == OUTCOME_END) {
        if (place->at == (reverse ? 0 : place->count)) {
            outcome = next_leaf(page, place);
            if (outcome != OUTCOME_FOUND)
                return outcome;
            page->together = page->share + ITEMS_AHEAD;
            outcome = OUTCOME_END;
            continue;
        }
        outcome = read_item(page, place, reverse ? --place->at : place->at++, &place->room,
                            &place->found);
    }
    if (outcome != OUTCOME_FOUND)
        return outcome;
    struct kv_slice key = place->found.record.key;
    if (reverse ? key_is_before(key, page->begin) : !key_is_before(key, page->end))
        return OUTCOME_END;
    return key_follows(page, key) ? OUTCOME_FOUND : OUTCOME_AGAIN;
}

static bool place_comes_first(const struct range_page *page, uint32_t a, uint32_t b)
{
    int order = key_compare(page->heap[a]->found.record.key, page->heap[b]->found.record.key);
    return page->range->reverse ? order > 0 : order < 0;
}

static void sink_place(struct range_page *page, uint32_t at)
{
    for (;;) {
        uint32_t first = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < page->heap_count && place_comes_first(page, child, first))
                first = child;
        if (first == at)
            return;
        struct file_place *place = page->heap[at];
        page->heap[at] = page->heap[first];
        page->heap[first] = place;
        at = first;
    }
}

static enum range_outcome begin_places(struct range_page *page)
{
    struct key_point point = page->range->reverse ? page->end : page->begin;
    page->heap_count = 0;
    for (uint32_t number = 0; number < page->store->datafiles; number++) {
        struct file_place *place = &page->places[number];
        place->look.number = number;
        place->has_leaf = false;
        enum range_outcome outcome = go_to(page, place, point, point, false);
        if (outcome == OUTCOME_FOUND)
            outcome = next_key(page, place);
        if (outcome == OUTCOME_FOUND)
            page->heap[page->heap_count++] = place;
        else if (outcome != OUTCOME_END)
            return outcome;
    }
    for (uint32_t at = page->heap_count / 2; at-- > 0;)
        sink_place(page, at);
    return OUTCOME_FOUND;
}

/* Pages ---------------------------------------------------------------------------------------- */

static enum range_outcome add_range_entry(struct range_page *page, const struct record *record)
{
    struct wire_scan_entry entry = {.key = record->key,
                                    .value =
                                        page->range->keys_only ? kv_slice(NULL, 0) : record->value,
                                    .version = record->version,
                                    .expiry_ms = record->expiry_ms};
    size_t size = wire_scan_entry_size(&entry);
    if (!value_reserve(page->entries, page->bytes + size))
        return OUTCOME_NO_MEMORY;
    uint8_t *at = (uint8_t *)page->entries->data + page->bytes;
    struct write_cursor cursor = write_cursor(at, size);
    wire_put_scan_entry(&cursor, &entry);
    page->bytes += size;
    page->entries_left--;
    struct read_cursor written = read_cursor(at, size);
    if (wire_get_scan_entry(&written, &entry) != KV_OK)
        return OUTCOME_AGAIN; /* the record's bytes are gone */
    page->last = entry.key;
    return OUTCOME_FOUND;
}

/* Returns true if the record is what was written. Of a record whose value is not wanted the key is
 * looked at alone. */
static bool record_counts(const struct range_page *page, const struct file_place *place)
{
    const struct direct_found *found = &place->found;
    if (!page->range->keys_only)
        return direct_found_is_sound(page->store, found);
    struct direct_place is = direct_place_of(page->store, found->record.key);
    uint32_t item = page->range->reverse ? place->at : place->at - 1;
    return is.file == place->look.number && is.hash == place->hashes[item];
}

/* Returns true if the record at the place is what it was when it was found. */
static bool place_stays(const struct range_page *page, const struct file_place *place)
{
    uint32_t item = page->range->reverse ? place->at : place->at - 1;
    return direct_found_stays(page->store, place->hashes[item], &place->found);
}

static enum range_outcome show_first(struct range_page *page)
{
    const struct file_place *place = page->heap[0];
    if (!record_counts(page, place))
        return place_stays(page, place) ? unread_record(place) : OUTCOME_AGAIN;
    page->looks_left--;
    enum range_outcome outcome = record_is_live(&place->found.record)
                                     ? add_range_entry(page, &place->found.record)
                                     : OUTCOME_FOUND;
    return place_stays(page, place) ? outcome : OUTCOME_AGAIN;
}

/* Returns true if the page is what it was meant to be: no log was replaced, and no transaction was
 * done, since its looks began. */
static enum range_outcome page_counts(const struct range_page *page)
{
    const struct shared_store *header = (const struct shared_store *)page->view->base;
    for (uint32_t number = 0; number < page->store->datafiles; number++) {
        const struct direct_look *look = &page->places[number].look;
        const struct direct_log *log =
            direct_store_known_log(page->store, number, look->generation);
        if (!direct_look_is_current(look))
            return OUTCOME_AGAIN;
        if (log && mapguard_is_broken(log->guard))
            return OUTCOME_ASK;
    }
    if (mapguard_is_broken(page->view->guard) || direct_store_has_ended(page->store))
        return OUTCOME_ASK;
    return shared_store_transacting(header) == page->transacting ? OUTCOME_FOUND : OUTCOME_AGAIN;
}

static bool page_goes_on(const struct range_page *page)
{
    return page->heap_count > 0 && page->entries_left > 0 && page->looks_left > 0 &&
           page->bytes < RANGE_FULL_BYTES;
}

static enum range_outcome fill_range_once(struct range_page *page)
{
    page->view = direct_store_view(page->store);
    page->bytes = page->sure_bytes = 0;
    page->last = kv_slice(NULL, 0);
    page->entries_left = page->limit;
    page->looks_left = page->limit * RANGE_LOOKS_PER_ENTRY + page->store->datafiles;
    page->transacting = shared_store_transacting((const struct shared_store *)page->view->base);
    if ((page->transacting & SHARED_STORE_TRANSACTING_MASK) != 0)
        return OUTCOME_AGAIN;
    enum range_outcome outcome = begin_places(page);
    for (uint32_t shown = 1; outcome == OUTCOME_FOUND && page_goes_on(page); shown++) {
        if (shown % LOOKS_TO_LOSE == 0) {
            outcome = page_counts(page);
            if (outcome != OUTCOME_FOUND)
                break;
            page->sure_bytes = page->bytes;
        }
        outcome = show_first(page);
        if (outcome != OUTCOME_FOUND)
            break;
        outcome = next_key(page, page->heap[0]);
        if (outcome == OUTCOME_END) {
            page->heap[0] = page->heap[--page->heap_count];
            outcome = OUTCOME_FOUND;
        }
        sink_place(page, 0);
    }
    return outcome == OUTCOME_FOUND ? page_counts(page) : outcome;
}

static enum range_outcome fill_range(struct range_page *page)
{
    enum range_outcome outcome = OUTCOME_AGAIN;
    for (unsigned tries = 0; tries < PAGE_TRIES && outcome == OUTCOME_AGAIN; tries++) {
        if (tries > 0)
            pause_cpu();
        outcome = fill_range_once(page);
        if (outcome == OUTCOME_AGAIN && page->sure_bytes > RANGE_WHOLE_BYTES) {
            page->bytes = page->sure_bytes;
            page->is_cut = true;
            outcome = OUTCOME_FOUND;
        }
        if (outcome == OUTCOME_MORE && direct_store_grow(page->store))
            outcome = OUTCOME_AGAIN;
    }
    return outcome;
}

static void free_range_page(struct range_page *page)
{
    for (uint32_t number = 0; page->places && number < page->store->datafiles; number++) {
        struct file_place *place = &page->places[number];
        clientk_value_free(&place->low);
        clientk_value_free(&place->high);
        clientk_value_free(&place->edge);
        clientk_value_free(&place->room);
    }
    clientk_value_free(&page->rooms[0]);
    clientk_value_free(&page->rooms[1]);
    free(page->places);
    free(page->heap);
}

/* Makes the page, between direct_begin and direct_end. False: it has to go by message. */
static bool range_page(struct direct_store *store, const struct direct_range *range,
                       struct clientk_result *result, bool *disturbed)
{
    uint64_t limit = range->limit == 0 ? RANGE_DEFAULT_LIMIT : range->limit;
    struct range_page page = {.store = store,
                              .range = range,
                              .begin =
                                  key_range_begin(range->from, range->behind_from, range->prefix),
                              .end = key_range_end(range->to, range->prefix),
                              .limit = at_most(limit, RANGE_MAX_LIMIT),
                              .entries = &result->value,
                              .places = calloc(store->datafiles, sizeof *page.places),
                              .heap = calloc(store->datafiles, sizeof(struct file_place *))};
    page.share = (uint32_t)(page.limit / store->datafiles) + 1;
    enum range_outcome outcome = page.places && page.heap ? fill_range(&page) : OUTCOME_NO_MEMORY;
    bool done = outcome == OUTCOME_FOUND;
    bool more = page.is_cut || page.heap_count > 0;
    free_range_page(&page);
    *disturbed = outcome == OUTCOME_AGAIN;
    result->status = done ? KV_OK : KV_NO_MEMORY;
    result->found = false;
    result->number = done && more;
    result->value.size = done ? page.bytes : 0;
    result->value.version = 0;
    result->value.expiry_ms = 0;
    /* A page that goes on has an entry, behind which it does. */
    return (done && (page.bytes > 0 || !more)) || outcome == OUTCOME_NO_MEMORY;
}

bool direct_range_page(struct direct *direct, struct direct_reader *reader,
                       const struct direct_range *range, struct clientk_result *result)
{
    bool read = false, disturbed = false;
    if (reader->pages_to_ask > 0) {
        reader->pages_to_ask--;
        direct_reader_count(&reader->asks, 1);
        return false;
    }
    for (unsigned attempt = 0; attempt < DIRECT_ATTEMPTS && !read; attempt++) {
        struct direct_store *store = direct_begin(direct, reader);
        if (!store)
            return false;
        bool filled = !direct_store_has_ended(store) && direct_store_keeps_logs(store) &&
                      range_page(store, range, result, &disturbed);
        read = direct_end(store, reader) && filled;
        if (!filled)
            break;
    }
    if (disturbed && !read) {
        reader->pages_to_ask = reader->pages_asked;
        reader->pages_asked = at_most(2 * reader->pages_asked + 1, PAGES_ASKED_MAX);
    } else {
        reader->pages_asked = 0;
    }
    direct_reader_count(read ? &reader->reads : &reader->asks, 1);
    return read;
}
