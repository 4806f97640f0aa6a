#include "kvstore/table/recovery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/table/checkpoint.h"
#include "kvstore/log/fileio.h"
#include "kvstore/format/keyhash.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/log/torn_tail.h"

/* Brings the index up to date with one record of the log. A superseded one stands there for what it
 * names, until a later record of its key does. */
static enum kv_status index_record(struct generation *generation, struct recovery *recovery,
                                   const struct record *record, uint64_t offset,
                                   uint64_t size_bytes, uint64_t now_ms)
{
    uint32_t hash = keyhash_index(keyhash(&generation->log.identity.hash_key, record->key));
    struct lookup lookup;
    struct record gone = *record;
    generation_find(generation, hash, record->key, &lookup);
    if (lookup.error != 0)
        return kv_status_from_errno(lookup.error);
    bool replaces_superseded = lookup.found && lookup.record.kind == RECORD_POINTER;
    if (record->kind != RECORD_POINTER && record_has_expired(record, now_ms))
        gone.kind = RECORD_DELETE; /* gone, as if it had been deleted */
    enum kv_status status = generation_adopt(generation, &lookup, &gone, offset, size_bytes);
    if (status == KV_OK)
        recovery->superseded +=
            (uint64_t)(gone.kind == RECORD_POINTER) - (uint64_t)replaces_superseded;
    if (recovery->superseded == 0)
        recovery->superseded_since = UINT64_MAX;
    else if (recovery->superseded_since == UINT64_MAX)
        recovery->superseded_since = offset;
    return status;
}

/* logfile_read, but of the record at recovery->lost_at. */
static enum record_verdict read_recovered(const struct logfile *log,
                                          const struct recovery *recovery, uint64_t offset,
                                          struct record *record, uint64_t *size_bytes)
{
    enum record_verdict verdict = logfile_read(log, READ_BUFFER_WALK, offset, record, size_bytes);
    return verdict == RECORD_SUPERSEDED && offset == recovery->lost_at ? RECORD_INVALID : verdict;
}

/* Notes the part of a transaction that begins at `begin` and ends with `record`. False: no memory.
 */
static bool note_part(struct recovery *recovery, const struct record *record, uint64_t begin)
{
    recovery->last_transaction = at_least(recovery->last_transaction, record->transaction);
    if (record->transaction <= recovery->settled)
        return true;
    const struct transaction_part part = {record->transaction, begin, record->next_file};
    return transaction_parts_add(&recovery->parts, &part);
}

/* Sets *end to where the records of the transaction that begins at `offset` end, all in a row; to
 * `offset` if they do not. `*verdict` and *read_end are then what was found instead, and where. */
static enum kv_status find_end(const struct logfile *log, const struct recovery *recovery,
                               uint64_t offset, uint64_t *end, uint64_t *read_end,
                               enum record_verdict *verdict)
{
    struct record record;
    uint64_t size_bytes;
    *end = *read_end = offset;
    do {
        *verdict = read_recovered(log, recovery, *read_end, &record, &size_bytes);
        if (*verdict == RECORD_UNREADABLE)
            return kv_status_from_errno(errno);
        if (*verdict != RECORD_VALID && *verdict != RECORD_SUPERSEDED)
            return KV_OK;
        *read_end += size_bytes;
    } while (record.goes_on);
    *end = *read_end;
    return KV_OK;
}

/* Returns true if a value pointer names what cannot be all its own: more bytes are in use then than
 * the log has. No daemon writes that. */
static bool is_counted_twice(const struct generation *generation, const struct record *record,
                             uint64_t offset)
{
    uint64_t free_bytes = offset - FILE_HEADER_BYTES - generation->words->live_bytes;
    return record->content_at != 0 && record_entry_bytes(record, 0) > free_bytes;
}

/* Reads the records of the log up to `limit`, where one begins, or its end, which becomes its tail.
 * `*verdict` is what was found there. */
static enum kv_status recover_records(struct generation *generation, uint64_t limit,
                                      struct recovery *recovery, enum record_verdict *verdict)
{
    struct logfile *log = &generation->log;
    uint64_t now_ms = recovery->keep_expired ? 0 : clock_realtime_ms();
    uint64_t offset = FILE_HEADER_BYTES;
    uint64_t part_begin = 0, part_end = 0; /* of the transaction whose records are being read */
    enum kv_status status = KV_OK;
    log->tail = log->allocated_bytes;
    recovery->superseded = 0;
    recovery->superseded_since = UINT64_MAX;
    recovery->parts.count = 0;
    *verdict = RECORD_VALID;
    logfile_begin(log, READ_BUFFER_WALK);
    while (offset < limit && status == KV_OK) {
        struct record record;
        uint64_t size_bytes;
        recovery->read_end = offset;
        *verdict = read_recovered(log, recovery, offset, &record, &size_bytes);
        if (*verdict == RECORD_UNREADABLE)
            status = kv_status_from_errno(errno);
        if (*verdict != RECORD_VALID && *verdict != RECORD_SUPERSEDED)
            break;
        if (*verdict == RECORD_SUPERSEDED)
            record.content_at = 0; /* it stands for itself */
        if (offset >= part_end)
            part_begin = offset;
        if (record.goes_on && offset >= part_end) {
            status = find_end(log, recovery, offset, &part_end, &recovery->read_end, verdict);
            if (status != KV_OK || part_end == offset)
                break;
            continue; /* the record may have been read over */
        }
        if (record.kind == RECORD_EXTENT) { /* its content, if it counts, comes later */
            offset += size_bytes;
            continue;
        }
        if (is_counted_twice(generation, &record, offset)) {
            *verdict = RECORD_INVALID;
            break;
        }
        if (record.transaction != 0 && !note_part(recovery, &record, part_begin))
            status = KV_NO_MEMORY;
        if (status == KV_OK)
            status =
                index_record(generation, recovery, &record, record_entry_offset(&record, offset),
                             record_entry_bytes(&record, size_bytes),
                             record_entry_offset(&record, offset) < log->gone.end
                                 ? at_least(now_ms, log->gone.expiry_ms)
                                 : now_ms);
        if (status == KV_OK)
            offset += size_bytes;
    }
    log->tail = offset;
    return status;
}

/* Empties index and sums, for the log to be read once more. */
static enum kv_status begin_again(struct generation *generation)
{
    struct shared_generation *words = generation->words;
    if (index_count(generation->index) > 0 && !index_clear(generation->index))
        return KV_NO_MEMORY;
    words->live_bytes = words->reserve_bytes = words->expiring_keys = 0;
    words->max_version = generation->log.progress.version_floor;
    return KV_OK;
}

/* Returns the offset of the first superseded pointer in the index; UINT64_MAX: there is none. */
static uint64_t find_superseded(const struct generation *generation)
{
    const struct logfile *log = &generation->log;
    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t first = UINT64_MAX;
    for (uint64_t hash = 0; hash < INDEX_HASH_END;) {
        size_t count = index_collect(generation->index, hash, items, INDEX_SEGMENT_SLOTS, &hash);
        for (size_t i = 0; i < count; i++) {
            uint64_t offset = items[i].offset_bytes, size_bytes;
            struct record record;
            logfile_begin(log, READ_BUFFER_LOOKUP);
            if (logfile_parse(log, READ_BUFFER_LOOKUP, offset, &record, &size_bytes) !=
                    RECORD_VALID &&
                record.kind == RECORD_POINTER)
                first = at_most(first, offset);
        }
    }
    return first;
}

static enum kv_status read_log_again(struct generation *generation, struct recovery *recovery,
                                     uint64_t limit, enum record_verdict *verdict)
{
    enum kv_status status = begin_again(generation);
    return status == KV_OK ? recover_records(generation, limit, recovery, verdict) : status;
}

/* What becomes of superseded pointers that nothing has replaced. One that was synced is damage.
 * Else the log ends where there was none yet. */
static enum kv_status find_lost_content(struct generation *generation, struct recovery *recovery,
                                        uint64_t limit, enum record_verdict *verdict)
{
    uint64_t first = find_superseded(generation);
    bool was_synced = first < generation->log.progress.synced_offset;
    recovery->lost_at = was_synced ? first : recovery->superseded_since;
    enum kv_status status = read_log_again(generation, recovery, limit, verdict);
    /* A transaction ends the log before its first record: what it had replaced may be lost, too. */
    while (status == KV_OK && !was_synced && recovery->superseded > 0) {
        if (recovery->superseded_since >= recovery->lost_at)
            return KV_IO; /* the file does not say the same twice */
        recovery->lost_at = recovery->superseded_since;
        status = read_log_again(generation, recovery, limit, verdict);
    }
    return status;
}

enum kv_status recovery_explain(const char *dir, enum kv_status status, struct kv_error *error)
{
    if (!error)
        return status;
    const struct kv_error bare = *error;
    if (status == KV_CORRUPT)
        return kv_error_set(error, status,
                            "%s/%s; to save what is intact: kvcheck --salvage OUT %s", dir,
                            bare.text, dir);
    return kv_error_set(error, status, "%s/%s", dir, bare.text);
}

/* What was read may be zeros. */
static enum kv_status report_broken(const struct logfile *log, const char *name,
                                    struct kv_error *error)
{
    return kv_error_set(error, KV_IO,
                        "%s: the file cannot be read at offset %" PRIu64
                        ": a disk error, or the file was truncated meanwhile",
                        name, atomic_load(&log->guard->fault_offset));
}

static enum kv_status report_damage(const struct logfile *log, const char *name, uint64_t read_end,
                                    enum record_verdict verdict, struct kv_error *error)
{
    return kv_error_set(
        error, KV_CORRUPT,
        "%s: damaged at offset %" PRIu64 ": %s, but the file was synced up to offset %" PRIu64,
        name, read_end,
        verdict == RECORD_END ? "zeros where a record should be" : "no valid record",
        log->progress.synced_offset);
}

static enum kv_status report_torn_gap(const struct logfile *log, const char *name,
                                      const struct torn_tail *torn_tail, struct kv_error *error)
{
    bool unknown = boot_is_unknown(log->boot);
    return kv_error_set(
        error, KV_CORRUPT,
        "%s: damaged at offset %" PRIu64 ": no valid record, but %" PRIu64
        " intact records follow from offset %" PRIu64 " on; %s%s",
        name, log->tail, torn_tail->intact, torn_tail->first_intact_at,
        unknown ? "whether the machine has been started again since they were written, which could "
                  "leave that, is not known: "
                : "the machine has not been started again since they were written, so that this is "
                  "damage and not a torn tail, or the store was copied while a daemon wrote to it",
        unknown ? boot_why_unknown(log->boot) : "");
}

/* Intact records behind a gap that a power failure or a failed sync may have left: the log ends at
 * the gap all the same, as its records may build on each other, but they are kept. */
static enum kv_status keep_remains(const struct logfile *log, int dir_fd, const char *dir,
                                   const struct torn_tail *torn_tail, struct kv_error *error)
{
    struct file_name name = file_name(log->identity.number, FILE_LOG);
    char kept[TORN_TAIL_NAME_BYTES];
    if (!log->writable) {
        log_warn("%s/%s: %" PRIu64 " intact records behind the torn place at offset %" PRIu64
                 " are ignored",
                 dir, name.text, torn_tail->intact, log->tail);
        return KV_OK;
    }
    enum kv_status status = torn_tail_keep(log, torn_tail, dir_fd, kept, error);
    if (status == KV_OK)
        log_warn(
            "%s/%s: the machine was restarted since it was written, or a sync of it failed, or "
            "this is a copy that was made while it was written to: %" PRIu64
            " intact records behind the torn place at offset %" PRIu64
            " were not yet known to be on disk; they are cut off, and kept in %s/%s, which "
            "kvcheck --dump reads as %s of a directory of its own",
            dir, name.text, torn_tail->intact, log->tail, dir, kept, name.text);
    return status;
}

/* Makes the log writable from its tail on, with nothing left behind it that could ever be taken for
 * a record, and what was recovered durable. */
static enum kv_status make_log_writable(struct generation *generation, const char *name,
                                        struct kv_error *error)
{
    struct logfile *log = &generation->log;
    if (generation->words->max_version >= RECOVERY_VERSION_LIMIT)
        return kv_error_set(error, KV_CORRUPT,
                            "%s: impossible version %" PRIu64 ", too high to go on from", name,
                            generation->words->max_version);
    generation->words->max_version += RECOVERY_VERSION_LEAP;
    bool shrinks = log->tail < log->progress.synced_offset;
    log->progress.synced_offset = at_most(log->progress.synced_offset, log->tail);
    log->gone.end = at_most(log->gone.end, log->tail); /* what is written now has not gone */
    if (log->boot != BOOT_THIS)                        /* a power failure may have taken records */
        log->gone.version = generation->words->max_version;
    if (lognotes_begin_chapter(log) != 0 ||
        logfile_note_progress(log, log->progress.synced_offset, generation->words->max_version) !=
            0)
        return kv_error_set_errno(error, "%s: cannot write the header", name);
    if (shrinks && logfile_sync(log) != 0) /* before: the note says where it ends */
        return kv_error_set_errno(error, "%s: cannot sync the file", name);
    if (logtail_cut(log, log->tail) != KV_OK)
        return kv_error_set_errno(error, "%s: cannot cut the file to %" PRIu64 " bytes", name,
                                  log->tail);
    if (logtail_ensure_room(log, generation->words->reserve_bytes + 1) != KV_OK)
        log_warn("%s: no disk space for writes (%s); reads continue", name, strerror(errno));
    if (logfile_sync(log) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the recovered file", name);
    if (logfile_note_progress(log, log->tail, generation->words->max_version) != 0)
        return kv_error_set_errno(error, "%s: cannot write the header", name);
    return KV_OK;
}

/* Why reading the log has failed with `status`. */
static enum kv_status explain_reading(const struct generation *generation, const char *name,
                                      enum kv_status status, struct kv_error *error)
{
    const struct logfile *log = &generation->log;
    if (status == KV_NO_MEMORY)
        return kv_error_set(error, status, "%s: no memory for the index of %" PRIu64 " keys", name,
                            index_count(generation->index));
    if (logfile_is_broken(log))
        return report_broken(log, name, error);
    if (status == KV_CROWDED)
        return kv_error_set(error, status, "%s: %s", name, kv_status_text(status));
    if (status != KV_OK)
        return kv_error_set(error, status,
                            "%s: the log cannot be read, at or before offset %" PRIu64, name,
                            log->tail);
    return KV_OK;
}

static enum kv_status recover_by_reading(struct generation *generation, struct recovery *recovery,
                                         struct kv_error *error)
{
    struct logfile *log = &generation->log;
    struct file_name name = file_name(log->identity.number, FILE_LOG);
    if (log->writable && logfile_flush_and_forget(log) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the file", name.text);
    enum record_verdict verdict;
    enum kv_status status = recover_records(generation, UINT64_MAX, recovery, &verdict);
    if (status == KV_OK && recovery->superseded > 0)
        status = find_lost_content(generation, recovery, UINT64_MAX, &verdict);
    status = explain_reading(generation, name.text, status, error);
    if (status != KV_OK)
        return status;
    if (recovery->read_end < log->progress.synced_offset)
        return report_damage(log, name.text, recovery->read_end, verdict, error);

    status = torn_tail_find(log, recovery->read_end, &recovery->torn_tail);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s: the log cannot be read after offset %" PRIu64,
                            name.text, recovery->read_end);
    if (logfile_is_broken(log))
        return report_broken(log, name.text, error);
    if (recovery->torn_tail.intact > 0 && log->boot != BOOT_EARLIER)
        return report_torn_gap(log, name.text, &recovery->torn_tail, error);
    return KV_OK;
}

/* Says what becomes of the transaction at the end of the log that is not whole. What a power
 * failure has left behind it is kept, as its records may be of interest. */
static enum kv_status drop_transaction(const struct logfile *log, int dir_fd, const char *dir,
                                       const struct recovery *recovery, struct kv_error *error)
{
    struct file_name name = file_name(log->identity.number, FILE_LOG);
    char kept[TORN_TAIL_NAME_BYTES] = "";
    bool keeps = log->writable && recovery->is_cut_short && log->boot == BOOT_EARLIER;
    enum kv_status status =
        keeps ? torn_tail_keep(log, &recovery->torn_tail, dir_fd, kept, error) : KV_OK;
    if (status == KV_OK)
        log_warn("%s/%s: the transaction at offset %" PRIu64 " is not whole: %" PRIu64
                 " bytes from there on %s%s",
                 dir, name.text, log->tail, recovery->cut_bytes,
                 !log->writable ? "are ignored"
                 : keeps        ? "are cut off, and kept in "
                                : "are cut off",
                 kept);
    return status;
}

/* Ends what recover_by_reading has begun. */
static enum kv_status finish_reading(struct generation *generation, int dir_fd, const char *dir,
                                     struct recovery *recovery, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    struct file_name name = file_name(log->identity.number, FILE_LOG);
    enum kv_status status = KV_OK;
    recovery->cut_bytes = recovery->torn_tail.end - log->tail;
    if (recovery->torn_tail.intact > 0 && !recovery->is_cut_short)
        status = keep_remains(log, dir_fd, dir, &recovery->torn_tail, error);
    if (status == KV_OK && log->tail < recovery->read_end)
        status = drop_transaction(log, dir_fd, dir, recovery, error);
    else if (status == KV_OK && recovery->cut_bytes > 0)
        log_warn("%s/%s: torn tail at offset %" PRIu64 ": %" PRIu64 " bytes %s", dir, name.text,
                 log->tail, recovery->cut_bytes, log->writable ? "cut off" : "ignored");
    if (status != KV_OK)
        return status;
    return log->writable ? make_log_writable(generation, name.text, error) : KV_OK;
}

static enum kv_status clear_index(struct generation *generation, struct kv_error *error)
{
    if (index_count(generation->index) == 0 || index_clear(generation->index))
        return KV_OK;
    return kv_error_set(error, KV_NO_MEMORY, "%s: no memory for the index",
                        file_name(generation->log.identity.number, FILE_LOG).text);
}

/* The checkpoint, if it can be used, else what the log says. */
static enum kv_status load_or_read(struct generation *generation, int dir_fd,
                                   struct recovery *recovery, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    if (log->progress.version_floor >= RECOVERY_VERSION_LIMIT)
        return kv_error_set(error, KV_CORRUPT, "%s: impossible version floor %" PRIu64,
                            file_name(log->identity.number, FILE_LOG).text,
                            log->progress.version_floor);
    recovery->from_checkpoint = checkpoint_load(generation, dir_fd);
    if (!recovery->from_checkpoint) {
        enum kv_status status = clear_index(generation, error);
        return status == KV_OK ? recover_by_reading(generation, recovery, error) : status;
    }
    if (logfile_is_broken(log))
        return report_broken(log, file_name(log->identity.number, FILE_LOG).text, error);
    return KV_OK;
}

enum kv_status recovery_read(struct generation *generation, int dir_fd, const char *dir,
                             struct recovery *recovery, struct kv_error *error)
{
    enum kv_status status = load_or_read(generation, dir_fd, recovery, error);
    return status == KV_OK ? KV_OK : recovery_explain(dir, status, error);
}

enum kv_status recovery_cut(struct generation *generation, const char *dir, uint64_t end,
                            struct recovery *recovery, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    struct recovery again = {.keep_expired = recovery->keep_expired, .settled = UINT64_MAX};
    enum record_verdict verdict;
    KV_ASSERT(!recovery->from_checkpoint && end >= FILE_HEADER_BYTES);
    enum kv_status status = begin_again(generation);
    if (status == KV_OK)
        status = recover_records(generation, end, &again, &verdict);
    if (status == KV_OK && again.superseded > 0) /* what replaced them is behind the cut */
        status = find_lost_content(generation, &again, end, &verdict);
    const struct file_name name = file_name(log->identity.number, FILE_LOG);
    status = explain_reading(generation, name.text, status, error);
    if (status == KV_OK && again.lost_at != 0 && again.lost_at < log->progress.synced_offset)
        status = report_damage(log, name.text, again.lost_at, RECORD_INVALID, error);
    recovery->is_cut_short = true;
    return status == KV_OK ? KV_OK : recovery_explain(dir, status, error);
}

static enum kv_status finish_loading(struct logfile *log, struct kv_error *error)
{
    if (!log->writable)
        return KV_OK;
    logtail_allocate_room(log);
    if (lognotes_begin_chapter(log) != 0)
        return kv_error_set_errno(error, "%s: cannot write the header",
                                  file_name(log->identity.number, FILE_LOG).text);
    return KV_OK;
}

enum kv_status recovery_finish(struct generation *generation, int dir_fd, const char *dir,
                               struct recovery *recovery, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    enum kv_status status = recovery->from_checkpoint
                                ? finish_loading(log, error)
                                : finish_reading(generation, dir_fd, dir, recovery, error);
    if (status == KV_OK && log->writable && lognotes_put_opening(log) != 0)
        status = kv_error_set_errno(error, "%s: cannot write the header",
                                    file_name(log->identity.number, FILE_LOG).text);
    return status == KV_OK ? KV_OK : recovery_explain(dir, status, error);
}

void recovery_end(struct recovery *recovery)
{
    transaction_parts_free(&recovery->parts);
}
