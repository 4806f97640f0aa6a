#include "clientk/direct/direct_scan.h"

#include "clientk/base/value_memory.h"
#include "clientk/direct/direct_read.h"
#include "common/assert/assert.h"
#include "common/memory/cursor.h"
#include "common/memory/machine_sizes.h"
#include "common/memory/reserved.h"
#include "common/time/pause.h"
#include "kvstore/format/sizes.h"
#include "kvstore/shared/scan_cursor.h"
#include "wire/operation.h"

#define DEFAULT_LIMIT 1000u
#define MAX_LIMIT     4096u

/* A page that has this many bytes takes no further entry. */
#define FULL_PAGE_BYTES (UINT64_C(1) << 20)

/* How many entries a page looks at for each that it may have, if the prefix does not match. A large
 * record counts as one look for each PAGE_BYTES. */
#define LOOKS_PER_ENTRY 64u

/* How often a page repeats a look because items were moved or a generation was replaced. */
#define MAX_TRIES 256u

/* How many records ahead the page asks for cache lines. */
#define RECORDS_AHEAD 8u

struct page_scan {
    struct direct_store *store;
    const struct direct_view *view;
    struct kv_slice prefix;
    bool keys_only;
    uint64_t position; /* everything before it was looked at */
    uint64_t entries_left;
    uint64_t looks_left;
    struct clientk_value *page;
    size_t page_bytes;
    struct clientk_value room; /* for records that are read with calls */
};

enum page_step {
    STEP_DONE,  /* continue */
    STEP_AGAIN, /* what the step has read does not count */
    STEP_MORE,  /* as STEP_AGAIN; more of the object is needed */
    STEP_ASK,   /* as STEP_AGAIN; the rest has to go by message */
    STEP_END,   /* the page ends here: what comes next is for the daemon to explain */
    STEP_NO_MEMORY
};

static bool page_is_full(const struct page_scan *scan)
{
    return scan->entries_left == 0 || scan->looks_left == 0 || scan->page_bytes >= FULL_PAGE_BYTES;
}

static bool add_entry(struct page_scan *scan, const struct record *record)
{
    struct wire_scan_entry entry = {.key = record->key,
                                    .value = scan->keys_only ? kv_slice(NULL, 0) : record->value,
                                    .version = record->version,
                                    .expiry_ms = record->expiry_ms};
    size_t size = wire_scan_entry_size(&entry);
    if (!value_reserve(scan->page, scan->page_bytes + size))
        return false;
    struct write_cursor cursor = write_cursor((uint8_t *)scan->page->data + scan->page_bytes, size);
    wire_put_scan_entry(&cursor, &entry);
    scan->page_bytes += size;
    scan->entries_left--;
    return true;
}

static enum page_step visit_record(struct page_scan *scan, const struct direct_look *look,
                                   uint32_t hash, uint64_t offset)
{
    struct direct_found found;
    if (direct_look_record(scan->store, look, offset, true, &scan->room, &found) != RECORD_VALID)
        return direct_look_is_current(look) ? STEP_END : STEP_AGAIN;
    if (!direct_found_is_sound(scan->store, &found))
        return direct_look_is_current(look) && direct_found_stays(scan->store, hash, &found)
                   ? STEP_END
                   : STEP_AGAIN;
    scan->looks_left -= at_most(at_least(found.size_bytes / PAGE_BYTES, 1), scan->looks_left);
    size_t bytes_before = scan->page_bytes;
    bool is_wanted =
        kv_slice_has_prefix(found.record.key, scan->prefix) && record_is_live(&found.record);
    if (is_wanted && !add_entry(scan, &found.record))
        return STEP_NO_MEMORY;
    if (!direct_found_stays(scan->store, hash, &found))
        return STEP_AGAIN;
    if (!is_wanted)
        return STEP_DONE;
    if (!mapguard_is_broken(found.log->guard))
        return STEP_DONE;
    scan->page_bytes = bytes_before; /* the entry may have zeros in it */
    scan->entries_left++;
    return STEP_END;
}

/* Finds the stops of `count` items of one hash from scan->position on, in their order. */
static enum page_step order_equal_items(struct page_scan *scan, const struct direct_look *look,
                                        const slot *items, size_t count, struct scan_stop *stops,
                                        size_t *found_stops)
{
    uint64_t start = scan_position(look->number, slot_hash(items[0]), 0);
    *found_stops = 0;
    for (size_t i = 0; i < count; i++) {
        struct direct_found found;
        if (direct_look_record(scan->store, look, index_slot_offset(items[i]), false, &scan->room,
                               &found) != RECORD_VALID)
            return direct_look_is_current(look) ? STEP_END : STEP_AGAIN;
        uint64_t position = start + scan_tie(keyhash(&scan->store->hash_key, found.record.key));
        if (!direct_found_stays(scan->store, slot_hash(items[0]), &found))
            return STEP_AGAIN;
        if (position >= scan->position)
            stops[(*found_stops)++] =
                (struct scan_stop){position, position + 1, index_slot_offset(items[i])};
    }
    scan_sort_stops(stops, *found_stops);
    return STEP_DONE;
}

/* Visits `count` items of one hash; the tie is worked out only where it decides. */
static enum page_step visit_equal_items(struct page_scan *scan, const struct direct_look *look,
                                        const slot *items, size_t count)
{
    struct scan_stop stops[INDEX_SEGMENT_SLOTS];
    uint64_t start = scan_position(look->number, slot_hash(items[0]), 0);
    uint64_t next = start + (UINT64_C(1) << SCAN_TIE_BITS);
    size_t stop_count = 1;
    enum page_step step = STEP_DONE;
    if (count == 1 && scan->position <= start)
        stops[0] = (struct scan_stop){start, next, index_slot_offset(items[0])};
    else
        step = order_equal_items(scan, look, items, count, stops, &stop_count);
    for (size_t i = 0; i < stop_count && step == STEP_DONE; i++) {
        bool shares_position = i > 0 && stops[i].position == stops[i - 1].position;
        if (page_is_full(scan) && !shares_position)
            return STEP_DONE;
        scan->position = stops[i].position;
        step = visit_record(scan, look, slot_hash(items[0]), stops[i].offset);
        if (step == STEP_DONE)
            scan->position = stops[i].next;
    }
    if (step == STEP_DONE && !page_is_full(scan))
        scan->position = next;
    return step;
}

/* The items of the segment at scan->position, as they are at one moment. No segment is deeper than
 * the directory: otherwise one segment of a damaged object would be visited billions of times. */
static enum page_step collect_items(const struct page_scan *scan, struct direct_look *look,
                                    slot items[INDEX_SEGMENT_SLOTS], size_t *count,
                                    uint64_t *next_hash)
{
    uint32_t hash = scan_position_hash(scan->position);
    if (!direct_look_begin(scan->store, scan->view, scan_position_file(scan->position), look))
        return STEP_AGAIN;
    const struct index_segment *segment = direct_look_segment(look, scan->view, hash);
    uint32_t depth = segment ? __atomic_load_n(&segment->depth, __ATOMIC_ACQUIRE) : 0;
    uint32_t directory_depth = direct_look_depth(look);
    if (segment)
        *count = segment_collect(segment, hash, items);
    if (!direct_look_holds(look))
        return STEP_AGAIN;
    if (!segment)
        return look->needs_more ? STEP_MORE : STEP_END;
    if (depth > directory_depth || depth > SEGMENT_HASH_BITS ||
        mapguard_is_broken(scan->view->guard))
        return STEP_END;
    *next_hash = segment_end(depth, hash);
    return STEP_DONE;
}

/* Visits the items of one segment from scan->position on. */
static enum page_step visit_segment(struct page_scan *scan)
{
    slot items[INDEX_SEGMENT_SLOTS];
    struct direct_look look;
    size_t count = 0, begin = 0;
    uint64_t next_hash = 0;
    uint64_t file = scan_position_file(scan->position);
    enum page_step step = collect_items(scan, &look, items, &count, &next_hash);
    scan->looks_left--; /* there may be many empty segments */
    while (begin < count && step == STEP_DONE && !page_is_full(scan)) {
        size_t end = begin + 1;
        while (end < count && slot_hash(items[end]) == slot_hash(items[begin]))
            end++;
        if (begin + RECORDS_AHEAD < count) {
            slot item = items[begin + RECORDS_AHEAD];
            const struct direct_log *log =
                direct_store_known_log(scan->store, look.number, look.generation);
            if (log && log->map && index_slot_offset(item) < log->map_bytes)
                __builtin_prefetch(log->map + index_slot_offset(item));
        }
        step = visit_equal_items(scan, &look, items + begin, end - begin);
        begin = end;
    }
    if (step == STEP_DONE && !page_is_full(scan))
        scan->position = scan_position(file, 0, 0) + (next_hash << SCAN_TIE_BITS);
    bool read_any = step == STEP_DONE || step == STEP_END;
    if (!read_any || direct_look_counts(scan->store, &look))
        return step;
    return direct_look_is_current(&look) ? STEP_ASK : STEP_AGAIN;
}

static bool page_is_past_end(const struct page_scan *scan)
{
    return scan_position_file(scan->position) >= scan->store->datafiles;
}

/* Fills the page until it is full, or as far as that goes without a message. False: no memory. */
static bool direct_fill_page(struct page_scan *scan)
{
    enum page_step step = STEP_DONE;
    for (unsigned tries = 0; tries < MAX_TRIES && step != STEP_END && step != STEP_NO_MEMORY &&
                             !page_is_full(scan) && !page_is_past_end(scan);) {
        struct page_scan before = *scan;
        scan->view = direct_store_view(scan->store);
        step = visit_segment(scan);
        if (step != STEP_AGAIN && step != STEP_MORE && step != STEP_ASK)
            continue;
        before.room = scan->room;
        *scan = before;
        tries++;
        pause_cpu();
        if (step == STEP_ASK || (step == STEP_MORE && !direct_store_grow(scan->store)))
            step = STEP_END;
    }
    return step != STEP_NO_MEMORY;
}

/* Makes the page, between direct_begin and direct_end. False: the page has to go by message. */
static bool scan_page(struct direct_store *store, struct kv_slice prefix,
                      const struct clientk_scan_options *options, struct clientk_result *result)
{
    uint64_t limit = options->limit == 0          ? DEFAULT_LIMIT
                     : options->limit < MAX_LIMIT ? options->limit
                                                  : MAX_LIMIT;
    struct page_scan scan = {.store = store,
                             .view = direct_store_view(store),
                             .prefix = prefix,
                             .keys_only = options->keys_only,
                             .entries_left = limit,
                             .looks_left = limit * LOOKS_PER_ENTRY,
                             .page = &result->value};
    if (!scan_cursor_position(&store->hash_key, options->cursor, &scan.position) ||
        scan_position_file(scan.position) >= store->datafiles)
        return false;
    uint64_t start = scan.position;
    bool filled = direct_fill_page(&scan);
    KV_ASSERT(scan.position >= start && scan.page_bytes <= scan.page->capacity);
    clientk_value_free(&scan.room);
    if (filled && scan.position == start)
        return false;
    bool goes_on = filled && !page_is_past_end(&scan);
    result->status = filled ? KV_OK : KV_NO_MEMORY;
    result->found = false;
    result->number =
        goes_on ? (int64_t)scan_cursor_of_position(&store->hash_key, scan.position) : 0;
    result->value.size = filled ? scan.page_bytes : 0;
    result->value.version = 0;
    result->value.expiry_ms = 0;
    return true;
}

bool direct_scan_page(struct direct *direct, struct direct_reader *reader, struct kv_slice prefix,
                      const struct clientk_scan_options *options, struct clientk_result *result)
{
    if (!RESERVED_IS_CLEAR(options->reserved) || options->atomic ||
        prefix.size > WIRE_MAX_KEY_BYTES)
        return false;
    bool read = false;
    for (unsigned attempt = 0; attempt < DIRECT_ATTEMPTS && !read; attempt++) {
        struct direct_store *store = direct_begin(direct, reader);
        if (!store)
            return false;
        bool filled = scan_page(store, prefix, options, result);
        read = direct_end(store, reader) && filled;
        if (!filled)
            break;
    }
    direct_reader_count(read ? &reader->reads : &reader->asks, 1);
    return read;
}
