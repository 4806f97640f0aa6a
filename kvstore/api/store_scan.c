/*
 * The scan. Entries are ordered by data file, then by the 32 bits of hash that the index knows,
 * then, for the few that share these, by other bits of the hash. A position is a point in that
 * order; a cursor is the position where the scan continues, enciphered (scan_cursor.h). Neither
 * depends on where records lie, so writes, growth and compaction do not disturb a scan.
 */
#include <errno.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/shared/scan_cursor.h"
#include "kvstore/format/sizes.h"
#include "kvstore/api/store.h"

/* Entries that are looked at under one lock, about. */
#define ENTRIES_PER_HOLD 48u

/* How many entries may be looked at for each that is asked for, if the prefix does not match, and
 * how many bytes of a record, all of which is read and verified, count as one look. */
#define LOOKS_PER_VISIT 64u
#define BYTES_PER_LOOK  PAGE_BYTES

/* Bytes of records after which the clock is read, where the time is limited. */
#define BYTES_PER_CLOCK (UINT64_C(8) << 20)

_Static_assert(KVSTORE_MAX_DATAFILES <= UINT64_C(1) << SCAN_FILE_BITS, "a data file's number fits");

/* One kvstore_scan call. */
struct store_scan {
    const struct store_context *context;
    struct kv_slice prefix;
    kvstore_visit visit;
    void *visit_context;
    uint64_t position; /* everything before was visited */
    uint64_t visits_left;
    uint64_t looks_left;
    uint64_t until_ns;          /* when a scan of a whole file ends; 0: a scan of single entries */
    uint64_t bytes_since_clock; /* of a whole file: read since the clock was */
    bool visited;               /* the visitor has taken an entry */
    bool refused;
    enum kv_status
        status;          /* KV_CORRUPT, KV_IO: the record at bad_offset of the log is damaged, or */
    uint64_t bad_offset; /* cannot be read */
};

static bool scan_is_past_end(const struct store_scan *scan)
{
    return scan_position_file(scan->position) >= scan->context->datafiles;
}

/* Holds: the file's lock. */
static void tell_unreadable_record(struct store_scan *scan, uint64_t offset)
{
    struct datafile *file = &scan->context->files[scan_position_file(scan->position)];
    scan->status = datafile_tell_unreadable(scan->context, file, offset, errno);
    scan->bad_offset = offset;
}

/* Holds: the file's lock. */
static uint64_t tie_of(struct store_scan *scan, const struct logfile *log, uint64_t offset)
{
    struct record record;
    uint64_t size_bytes;
    struct kv_slice key = {NULL, 0};
    switch (logfile_parse(log, READ_BUFFER_VISIT, offset, &record, &size_bytes)) {
    case RECORD_VALID:
        key = record.key;
        break;
    case RECORD_UNREADABLE: /* its position is not known: to continue could leave it out */
        tell_unreadable_record(scan, offset);
        break;
    default:
        break;
    }
    return scan_tie(keyhash(&scan->context->hash_key, key));
}

static bool store_scan_is_over(const struct store_scan *scan)
{
    return scan->refused || scan->status != KV_OK || scan->visits_left == 0 ||
           scan->looks_left == 0;
}

/* Counts a record of that size as looked at. In a scan of a whole file the entries and the time are
 * counted. */
static void count_look(struct store_scan *scan, uint64_t record_bytes)
{
    uint64_t looks = 1;
    if (scan->until_ns == 0) {
        looks = at_least(record_bytes / BYTES_PER_LOOK, 1);
    } else {
        scan->bytes_since_clock += record_bytes;
        if (scan->bytes_since_clock >= BYTES_PER_CLOCK) {
            scan->bytes_since_clock = 0;
            if (clock_monotonic_ns() >= scan->until_ns)
                looks = scan->looks_left;
        }
    }
    scan->looks_left -= at_most(looks, scan->looks_left);
}

/* Shows the entry to the visitor if it is alive and has the prefix. False: the visitor refused it.
 * Holds: the file's lock. */
static bool show_scanned_record(struct store_scan *scan, const struct logfile *log, uint64_t offset)
{
    KV_ASSERT(lockset_is_held(scan->context->locks, scan_position_file(scan->position)));
    struct record record;
    uint64_t size_bytes;
    uint32_t mark = mapguard_mark(log->guard);
    bool verify = !scan->context->options.no_read_verify || logfile_is_broken(log);
    enum record_verdict verdict =
        verify ? logfile_read(log, READ_BUFFER_VISIT, offset, &record, &size_bytes)
               : logfile_load(log, READ_BUFFER_VISIT, offset, &record, &size_bytes);
    count_look(scan, verdict == RECORD_VALID ? size_bytes : 1);
    if (verdict == RECORD_UNREADABLE) {
        tell_unreadable_record(scan, offset);
        return true;
    }
    if (verdict != RECORD_VALID) {
        struct datafile *file = &scan->context->files[scan_position_file(scan->position)];
        scan->status = datafile_tell_damage(scan->context, file, offset, kv_slice(NULL, 0));
        scan->bad_offset = offset;
        return true;
    }
    if (!kv_slice_has_prefix(record.key, scan->prefix) || !record_is_live(&record))
        return true;
    struct kvstore_scanned entry = {record.key, record.value, record.version, record.expiry_ms};
    bool taken = scan->visit(scan->visit_context, &entry);
    if (!mapguard_held(log->guard, mark)) { /* what the visitor saw may be zeros */
        struct datafile *file = &scan->context->files[scan_position_file(scan->position)];
        scan->status = datafile_tell_broken(scan->context, file, log);
        scan->bad_offset = 0;
        return true;
    }
    if (!taken)
        return false;
    scan->visited = true;
    if (scan->visits_left > 0)
        scan->visits_left--;
    return true;
}

/* Visits entries that are in order and begin at scan->position or later; a limit does not separate
 * entries that share a position. Holds: the file's lock. */
static void visit_stops(struct store_scan *scan, const struct logfile *log,
                        const struct scan_stop *stops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool shares_position = i > 0 && stops[i].position == stops[i - 1].position;
        if (store_scan_is_over(scan) && !(shares_position && !scan->refused))
            return;
        scan->position = stops[i].position;
        if (!show_scanned_record(scan, log, stops[i].offset)) {
            scan->refused = true;
            return;
        }
        scan->position = stops[i].next;
    }
}

/* Visits `count` items of one hash. Their ties are computed only where they decide. Holds: the
 * file's lock. */
static void visit_equal_hashes(struct store_scan *scan, const struct datafile *file,
                               const struct index_item *items, size_t count)
{
    const struct logfile *log = &file->current->log;
    struct scan_stop stops[INDEX_SEGMENT_SLOTS];
    size_t found = 0;
    uint64_t start = scan_position(file->number, items[0].hash, 0);
    uint64_t next_hash = start + (UINT64_C(1) << SCAN_TIE_BITS);
    if (count == 1 && scan->position <= start) {
        stops[found++] = (struct scan_stop){start, next_hash, items[0].offset_bytes};
    } else {
        for (size_t i = 0; i < count; i++) {
            uint64_t position = start + tie_of(scan, log, items[i].offset_bytes);
            if (position >= scan->position)
                stops[found++] = (struct scan_stop){position, position + 1, items[i].offset_bytes};
        }
        scan_sort_stops(stops, found);
    }
    visit_stops(scan, log, stops, found);
    if (!store_scan_is_over(scan))
        scan->position = next_hash;
}

/* The cursor with which the caller continues. */
static uint64_t cursor_of(const struct store_scan *scan)
{
    return scan_is_past_end(scan)
               ? 0
               : scan_cursor_of_position(&scan->context->hash_key, scan->position);
}

/* Scans from scan->position on for a while, within one data file and one segment of its index.
 * Holds: the file's lock. */
static void scan_a_while(struct store_scan *scan, const struct datafile *file)
{
    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t next_hash;
    logfile_begin(&file->current->log, READ_BUFFER_VISIT);
    size_t count = index_collect(file->current->index, scan_position_hash(scan->position), items,
                                 INDEX_SEGMENT_SLOTS, &next_hash);
    size_t begin = 0;
    while (begin < count && begin < ENTRIES_PER_HOLD && !store_scan_is_over(scan)) {
        size_t end = begin + 1;
        while (end < count && items[end].hash == items[begin].hash)
            end++;
        visit_equal_hashes(scan, file, items + begin, end - begin);
        begin = end;
    }
    if (begin == count && !store_scan_is_over(scan))
        scan->position = scan_position(file->number, 0, 0) + (next_hash << SCAN_TIE_BITS);
}

enum kv_status kvstore_scan_file(struct kvstore *store, uint64_t *cursor, struct kv_slice prefix,
                                 kvstore_visit visit, void *visit_context)
{
    const struct store_context *context = &store->context;
    uint64_t position;
    if (!scan_cursor_position(&context->hash_key, *cursor, &position))
        return KV_BAD_REQUEST;
    uint32_t number = scan_position_file(position);
    if (number >= context->datafiles || position != scan_position(number, 0, 0))
        return KV_BAD_REQUEST;
    struct store_scan scan = {.context = context,
                              .prefix = prefix,
                              .visit = visit,
                              .visit_context = visit_context,
                              .position = position,
                              .visits_left = UINT64_MAX,
                              .looks_left = KVSTORE_SCAN_FILE_ENTRIES,
                              .until_ns =
                                  clock_monotonic_ns() + KVSTORE_SCAN_FILE_MS * UINT64_C(1000000)};
    bool file_left;
    lockset_read_lock(context->locks, number);
    do {
        scan_a_while(&scan, &context->files[number]);
        file_left = scan_is_past_end(&scan) || scan_position_file(scan.position) != number;
    } while (!file_left && !store_scan_is_over(&scan));
    lockset_read_unlock(context->locks, number);
    logfile_end(context->options.io);
    if (scan.status != KV_OK || scan.refused)
        return scan.status;
    if (!file_left)
        return KV_LIMIT;
    *cursor = cursor_of(&scan);
    return KV_OK;
}

enum kv_status kvstore_scan(struct kvstore *store, uint64_t *cursor, struct kv_slice prefix,
                            uint32_t max_entries, kvstore_visit visit, void *visit_context,
                            struct kvstore_scan_result *result)
{
    const struct store_context *context = &store->context;
    if (result)
        *result = (struct kvstore_scan_result){0};
    uint64_t position;
    if (!scan_cursor_position(&context->hash_key, *cursor, &position) ||
        scan_position_file(position) >= context->datafiles)
        return KV_BAD_REQUEST;
    uint64_t visits = at_least(max_entries, 1);
    struct store_scan scan = {.context = context,
                              .prefix = prefix,
                              .visit = visit,
                              .visit_context = visit_context,
                              .position = position,
                              .visits_left = visits,
                              .looks_left = visits * LOOKS_PER_VISIT};
    do {
        uint32_t number = scan_position_file(scan.position);
        lockset_read_lock(context->locks, number);
        scan_a_while(&scan, &context->files[number]);
        lockset_read_unlock(context->locks, number);
    } while (!scan_is_past_end(&scan) && !store_scan_is_over(&scan));
    logfile_end(context->options.io);
    if (scan.refused && !scan.visited)
        return KV_OK;
    if (result)
        result->bad_offset = scan.bad_offset;
    *cursor = cursor_of(&scan);
    return scan.status;
}
