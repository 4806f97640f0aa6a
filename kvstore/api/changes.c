/*
 * The changes of a data file, read from its log, and from those that compactions have replaced.
 */
#include <errno.h>

#include "common/memory/machine_sizes.h"
#include "common/report/error.h"
#include "kvstore/api/store.h"
#include "kvstore/format/sizes.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/position.h"

/* Records and bytes that are looked at under one lock, about. */
#define RECORDS_PER_HOLD 64u
#define BYTES_PER_HOLD   (UINT64_C(256) << 10)

/* How many records may be looked at for each that is asked for, and how many bytes count as one
 * look, as in a scan. */
#define LOOKS_PER_VISIT 64u
#define BYTES_PER_LOOK  PAGE_BYTES

/* Logs that one call reads, at most: links of forged headers might form a ring. */
#define LOGS_PER_CALL 64u

/* The changes of one transaction in the file. */
struct change_piece {
    uint64_t place;     /* of its first record; 0: there is none */
    uint32_t following; /* how many records are behind the one that was read last */
    uint32_t parts, next_file;
    uint64_t transaction;
};

/* One kvstore_changes call. */
struct reading {
    struct kvstore *store;
    struct datafile *file;
    struct kv_slice prefix;
    kvstore_change_visit visit;
    void *visit_context;
    struct kvstore_position position; /* behind the last change that was visited or passed over */
    struct change_piece piece;
    uint64_t visits_left;
    uint64_t looks_left;
    bool refused;
};

static bool reading_is_over(const struct reading *reading)
{
    return reading->refused || (reading->piece.following == 0 &&
                                (reading->visits_left == 0 || reading->looks_left == 0));
}

static enum kvstore_change_kind kind_of(const struct record *record)
{
    if (record->kind == RECORD_PUT)
        return KVSTORE_CHANGE_PUT;
    return record->expiry_ms != 0 ? KVSTORE_CHANGE_EXPIRE : KVSTORE_CHANGE_DELETE;
}

/* Shows the record to the visitor if its key has the prefix, and moves the position behind it. */
static void show_change(struct reading *reading, const struct logfile *log,
                        const struct record *record, uint64_t offset, uint64_t size_bytes)
{
    struct kvstore_change change = {
        .kind = kind_of(record),
        .key = record->key,
        .value = record->value,
        .version = record->version,
        .expiry_ms = record->expiry_ms,
        .position = {.log = log->stream, .version = record->version, .place = offset},
        .piece = reading->piece.place,
        .following = reading->piece.following,
        .transaction = reading->piece.transaction,
        .parts = reading->piece.parts,
        .next_file = reading->piece.next_file};
    uint64_t bytes = record_entry_bytes(record, size_bytes);
    reading->looks_left -= at_most(at_least(bytes / BYTES_PER_LOOK, 1), reading->looks_left);
    if (record->kind != RECORD_EXTENT && kv_slice_has_prefix(record->key, reading->prefix)) {
        if (!reading->visit(reading->visit_context, &change)) {
            reading->refused = true;
            return;
        }
        reading->visits_left -= reading->visits_left > 0;
    }
    reading->position = change.position;
}

/* Finds out about the piece that begins at `offset`, with the record, or goes on there: its last
 * record says to which transaction it belongs. False: a record behind that one cannot be read. */
static bool find_piece(struct change_piece *piece, const struct logfile *log, uint64_t offset,
                       uint64_t end, struct record record, uint64_t size_bytes,
                       enum record_verdict *verdict)
{
    bool verified;
    *piece = (struct change_piece){.place = offset};
    while (record.goes_on && ++piece->following < KVSTORE_MAX_TRANSACTION_STEPS) {
        offset += size_bytes;
        *verdict =
            logfile_walk(log, READ_BUFFER_VISIT, offset, end, &record, &size_bytes, &verified);
        if (*verdict != RECORD_VALID)
            return false;
    }
    if (record.transaction != 0) {
        piece->transaction = record.transaction;
        piece->parts = record.parts;
        piece->next_file = record.next_file;
    }
    return true;
}

/* Notes to which piece the record belongs, which stands at `offset` and was read last. The record
 * is read anew where that was needed. Fails as logfile_walk does. */
static enum record_verdict note_piece(struct change_piece *piece, const struct logfile *log,
                                      uint64_t offset, uint64_t end, struct record *record,
                                      uint64_t *size_bytes, bool *verified)
{
    enum record_verdict verdict = RECORD_VALID;
    if (piece->following > 0) {
        piece->following--;
        return verdict;
    }
    *piece = (struct change_piece){0};
    if (!record->goes_on && record->transaction == 0)
        return verdict;
    if (!find_piece(piece, log, offset, end, *record, *size_bytes, &verdict)) {
        *piece = (struct change_piece){0};
        return verdict;
    }
    return logfile_walk(log, READ_BUFFER_VISIT, offset, end, record, size_bytes, verified);
}

/* What to say of a large value whose bytes are not there: what was put has been overwritten since,
 * or is damaged, if it is what the index points at. Holds: the file's lock, if it is the log in
 * use. */
static enum kv_status explain_no_content(const struct reading *reading, const struct logfile *log,
                                         const struct record *record)
{
    const struct store_context *context = &reading->store->context;
    const struct generation *current = reading->file->current;
    struct lookup lookup;
    if (log != &current->log)
        return KV_MISSED;
    generation_find(current, keyhash_index(keyhash(&context->hash_key, record->key)), record->key,
                    &lookup);
    bool is_newer = lookup.found && lookup.record.version > record->version;
    return (lookup.found || lookup.damaged) && lookup.offset == record->content_at && !is_newer
               ? KV_CORRUPT
               : KV_MISSED;
}

/* Reads on from *offset for a while. A large record that this process has written or verified is
 * verified all the same: a follower keeps what is shown, and the mapping may have lost its bytes.
 * KV_IO: the mapping lost bytes meanwhile; the position is before the change that was shown last,
 * perhaps as zeros. */
static enum kv_status read_changes(struct reading *reading, const struct logfile *log,
                                   uint64_t *offset, uint64_t end)
{
    uint64_t until = *offset + BYTES_PER_HOLD;
    logfile_begin(log, READ_BUFFER_VISIT);
    for (unsigned i = 0;
         i < RECORDS_PER_HOLD && *offset < end && *offset < until && !reading_is_over(reading);
         i++) {
        struct record record;
        uint64_t size_bytes;
        bool verified;
        uint32_t mark = mapguard_mark(log->guard);
        struct kvstore_position before = reading->position;
        enum record_verdict verdict =
            logfile_walk(log, READ_BUFFER_VISIT, *offset, end, &record, &size_bytes, &verified);
        if (verdict == RECORD_VALID)
            verdict =
                note_piece(&reading->piece, log, *offset, end, &record, &size_bytes, &verified);
        if (verdict == RECORD_UNREADABLE)
            return kv_status_from_errno(errno);
        bool sound = verdict == RECORD_VALID && (verified || logfile_verify(log, *offset, &record));
        if (verdict == RECORD_SUPERSEDED ||
            (!sound && verdict == RECORD_VALID && record.content_at != 0))
            return explain_no_content(reading, log, &record);
        if (!sound)
            return KV_CORRUPT;
        show_change(reading, log, &record, *offset, size_bytes);
        if (!mapguard_held(log->guard, mark)) {
            reading->position = before;
            return KV_IO;
        }
        if (!reading->refused)
            *offset += size_bytes;
    }
    return KV_OK;
}

/* The log in use ------------------------------------------------------------------------------- */

static enum kv_status explain_unreadable_change(struct reading *reading, const struct logfile *log,
                                                enum kv_status status, uint64_t offset)
{
    const struct store_context *context = &reading->store->context;
    if (logfile_is_broken(log))
        return datafile_tell_broken(context, reading->file, log);
    return status == KV_CORRUPT
               ? datafile_tell_damage(context, reading->file, offset, kv_slice(NULL, 0))
               : status;
}

/* Reads on in the current log, under one lock. False: the position is of another log. */
static bool read_current(struct reading *reading, enum kv_status *status, bool *at_end)
{
    const struct store_context *context = &reading->store->context;
    lockset_read_lock(context->locks, reading->file->number);
    const struct generation *current = reading->file->current;
    const struct logfile *log = &current->log;
    bool is_of = position_is_of(&reading->position, log);
    uint64_t offset = 0;
    if (is_of) {
        uint32_t mark = mapguard_mark(log->guard);
        *status =
            position_find(&reading->position, log, log->tail, current->words->max_version, &offset);
        if (*status == KV_OK)
            *status = read_changes(reading, log, &offset, log->tail);
        if (*status == KV_CORRUPT || *status == KV_IO || !mapguard_held(log->guard, mark))
            *status =
                explain_unreadable_change(reading, log, *status == KV_OK ? KV_IO : *status, offset);
        *at_end = *status == KV_OK && offset == log->tail;
    }
    lockset_read_unlock(context->locks, reading->file->number);
    return is_of;
}

/* Past logs ------------------------------------------------------------------------------------ */

/* Reads on in a log that was replaced, for a while or to its end, where the position becomes one in
 * the next log. Changes whose bytes a power failure took are missed. */
static enum kv_status read_past_changes(struct reading *reading, const struct past_link *link)
{
    const struct store_context *context = &reading->store->context;
    struct logfile log;
    struct file_name name = file_name_past(reading->file->number, link->salt);
    uint64_t offset;
    if (logfile_open(&log, KVSTORE_IO_PREAD, context->dir_fd, name.text, false, NULL) != KV_OK)
        return KV_MISSED;
    enum kv_status status = KV_MISSED;
    if (log.identity.salt == link->salt && position_is_of(&reading->position, &log) &&
        link->end <= log.allocated_bytes)
        status = position_find(&reading->position, &log, link->end, link->max_version, &offset);
    if (status == KV_OK) {
        do
            status = read_changes(reading, &log, &offset, link->end);
        while (status == KV_OK && offset < link->end && !reading_is_over(reading));
        if (status == KV_OK && offset == link->end)
            reading->position = link->next;
    }
    if (status == KV_CORRUPT || (status == KV_IO && errno == ENODATA))
        status = KV_MISSED;
    logfile_close(&log);
    read_buffer_trim();
    return status;
}

static enum kv_status follow_log(struct reading *reading)
{
    const struct kvstore_position *position = &reading->position;
    struct past_link link;
    if (!past_logs_find(reading->store->past, reading->file->number, position->log, &link))
        return KV_MISSED;
    bool is_last = position->version == link.last.version && position->place == link.last.place;
    if (!is_last)
        return read_past_changes(reading, &link);
    reading->position = link.next; /* without the log's file, which may be gone */
    return KV_OK;
}

/* The calls ------------------------------------------------------------------------------------ */

static enum kv_status check_file_readable(const struct kvstore *store, uint32_t number)
{
    if (number >= store->context.datafiles)
        return KV_USAGE;
    return store->past ? KV_OK : KV_READ_ONLY;
}

enum kv_status kvstore_changes(struct kvstore *store, uint32_t number,
                               struct kvstore_position *position, struct kv_slice prefix,
                               uint32_t max_changes, kvstore_change_visit visit, void *context,
                               bool *at_end)
{
    *at_end = false;
    enum kv_status status = check_file_readable(store, number);
    if (status != KV_OK)
        return status;
    past_logs_use(store->past);
    uint64_t visits = at_least(max_changes, 1);
    struct reading reading = {.store = store,
                              .file = &store->context.files[number],
                              .prefix = prefix,
                              .visit = visit,
                              .visit_context = context,
                              .position = *position,
                              .visits_left = visits,
                              .looks_left = visits * LOOKS_PER_VISIT};
    unsigned logs = 0;
    while (status == KV_OK && !*at_end && !reading_is_over(&reading)) {
        uint64_t log = reading.position.log;
        if (!read_current(&reading, &status, at_end))
            status = follow_log(&reading);
        if (reading.position.log != log && ++logs == LOGS_PER_CALL)
            break;
    }
    logfile_end(store->context.options.io);
    *position = reading.position;
    return status;
}

enum kv_status kvstore_changes_now(struct kvstore *store, uint32_t number,
                                   struct kvstore_position *position)
{
    enum kv_status status = check_file_readable(store, number);
    if (status != KV_OK)
        return status;
    past_logs_use(store->past);
    struct datafile *file = &store->context.files[number];
    lockset_write_lock(store->context.locks, number);
    if (position_open_stream(&file->current->log) != 0) {
        lockset_write_unlock(store->context.locks, number);
        return KV_IO;
    }
    struct kvstore_ticket ticket = {number, atomic_load(&file->appended_bytes)};
    bool durable = !file->taken_over || kvstore_is_durable(store, ticket);
    *position = position_of_tail(file->current, durable);
    lockset_write_unlock(store->context.locks, number);
    logfile_end(store->context.options.io);
    return KV_OK;
}

void kvstore_set_change_listener(struct kvstore *store, kvstore_change_listener listener,
                                 void *context)
{
    if (store->past)
        past_logs_set_listener(store->past, listener, context);
}

void kvstore_await_change(struct kvstore *store, uint32_t number)
{
    if (check_file_readable(store, number) != KV_OK)
        return;
    lockset_read_lock(store->context.locks, number);
    __atomic_store_n(&store->context.files[number].followed, true, __ATOMIC_RELAXED);
    lockset_read_unlock(store->context.locks, number);
}
