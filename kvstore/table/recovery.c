#include "kvstore/table/recovery.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/table/checkpoint.h"
#include "kvstore/log/fileio.h"
#include "kvstore/format/keyhash.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/log/remains.h"

/* Brings the index up to date with one record of the log. */
static enum kv_status index_record(struct generation *generation, const struct record *record,
                                   uint64_t offset, uint64_t size_bytes, uint64_t now_ms)
{
    uint32_t hash = keyhash_index(keyhash(&generation->log.identity.hash_key, record->key));
    struct lookup lookup;
    generation_find(generation, hash, record->key, &lookup);
    if (lookup.error != 0)
        return kv_status_from_errno(lookup.error);
    if (!record_has_expired(record, now_ms))
        return generation_adopt(generation, &lookup, record, offset, size_bytes);
    /* Gone, as if it had been deleted. */
    struct record gone = *record;
    gone.kind = RECORD_DELETE;
    return generation_adopt(generation, &lookup, &gone, offset, size_bytes);
}

/* Reads the log to its end, which becomes its tail. `*verdict` is what was found there. */
static enum kv_status recover_records(struct generation *generation, bool keep_expired,
                                      enum record_verdict *verdict)
{
    struct logfile *log = &generation->log;
    uint64_t now_ms = keep_expired ? 0 : clock_realtime_ms();
    uint64_t offset = FILE_HEADER_BYTES;
    log->tail = log->allocated_bytes;
    logfile_begin(log, READ_BUFFER_WALK);
    for (;;) {
        struct record record;
        uint64_t size_bytes;
        *verdict = logfile_read(log, READ_BUFFER_WALK, offset, &record, &size_bytes);
        if (*verdict == RECORD_UNREADABLE) {
            log->tail = offset;
            return kv_status_from_errno(errno);
        }
        if (*verdict != RECORD_VALID)
            break;
        enum kv_status status =
            index_record(generation, &record, offset, size_bytes,
                         offset < log->gone.end ? at_least(now_ms, log->gone.expiry_ms) : now_ms);
        if (status != KV_OK)
            return status;
        offset += size_bytes;
    }
    log->tail = offset;
    return KV_OK;
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

static enum kv_status report_damage(const struct logfile *log, const char *name,
                                    enum record_verdict verdict, struct kv_error *error)
{
    return kv_error_set(
        error, KV_CORRUPT,
        "%s: damaged at offset %" PRIu64 ": %s, but the file was synced up to offset %" PRIu64,
        name, log->tail,
        verdict == RECORD_END ? "zeros where a record should be" : "no valid record",
        log->progress.synced_offset);
}

static enum kv_status report_torn_gap(const struct logfile *log, const char *name,
                                      const struct remains *remains, struct kv_error *error)
{
    bool unknown = boot_is_unknown(log->boot);
    return kv_error_set(
        error, KV_CORRUPT,
        "%s: damaged at offset %" PRIu64 ": no valid record, but %" PRIu64
        " intact records follow from offset %" PRIu64 " on; %s%s",
        name, log->tail, remains->intact, remains->first_intact_at,
        unknown ? "whether the machine has been started again since they were written, which could "
                  "leave that, is not known: "
                : "the machine has not been started again since they were written, so that this is "
                  "damage and not a torn tail, or the store was copied while a daemon wrote to it",
        unknown ? boot_why_unknown(log->boot) : "");
}

/* Intact records behind a gap that a power failure or a failed sync may have left: the log ends at
 * the gap all the same, as its records may build on each other, but they are kept. */
static enum kv_status keep_remains(const struct logfile *log, int dir_fd, const char *dir,
                                   const struct remains *remains, struct kv_error *error)
{
    struct file_name name = file_name(log->identity.number, FILE_LOG);
    char kept[REMAINS_NAME_BYTES];
    if (!log->writable) {
        log_warn("%s/%s: %" PRIu64 " intact records behind the torn place at offset %" PRIu64
                 " are ignored",
                 dir, name.text, remains->intact, log->tail);
        return KV_OK;
    }
    enum kv_status status = remains_keep(log, remains, dir_fd, kept, error);
    if (status == KV_OK)
        log_warn(
            "%s/%s: the machine was restarted since it was written, or a sync of it failed, or "
            "this is a copy that was made while it was written to: %" PRIu64
            " intact records behind the torn place at offset %" PRIu64
            " were not yet known to be on disk; they are cut off, and kept in %s/%s, which "
            "kvcheck --dump reads as %s of a directory of its own",
            dir, name.text, remains->intact, log->tail, dir, kept, name.text);
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
    log->gone.end = at_most(log->gone.end, log->tail); /* what is written now has not gone */
    if (log->boot != BOOT_THIS)                        /* a power failure may have taken records */
        log->gone.version = generation->words->max_version;
    if (lognotes_begin_chapter(log) != 0 ||
        logfile_note_progress(log, log->progress.synced_offset, generation->words->max_version) !=
            0)
        return kv_error_set_errno(error, "%s: cannot write the header", name);
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

static enum kv_status recover_by_reading(struct generation *generation, int dir_fd, const char *dir,
                                         struct recovery *recovery, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    struct file_name name = file_name(log->identity.number, FILE_LOG);
    if (log->writable && logfile_flush_and_forget(log) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the file", name.text);
    enum record_verdict verdict;
    enum kv_status status = recover_records(generation, recovery->keep_expired, &verdict);
    if (status == KV_NO_MEMORY)
        return kv_error_set(error, status, "%s: no memory for the index of %" PRIu64 " keys",
                            name.text, index_count(generation->index));
    if (logfile_is_broken(log))
        return report_broken(log, name.text, error);
    if (status == KV_CROWDED)
        return kv_error_set(error, status, "%s: %s", name.text, kv_status_text(status));
    if (status != KV_OK)
        return kv_error_set(error, status,
                            "%s: the log cannot be read, at or before offset %" PRIu64, name.text,
                            log->tail);
    if (log->tail < log->progress.synced_offset)
        return report_damage(log, name.text, verdict, error);

    struct remains remains;
    status = remains_find(log, &remains);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s: the log cannot be read after offset %" PRIu64,
                            name.text, log->tail);
    if (logfile_is_broken(log))
        return report_broken(log, name.text, error);
    if (remains.intact > 0 && log->boot != BOOT_EARLIER)
        return report_torn_gap(log, name.text, &remains, error);
    if (remains.intact > 0)
        status = keep_remains(log, dir_fd, dir, &remains, error);
    if (status != KV_OK)
        return status;
    recovery->cut_bytes = remains.end - log->tail;
    if (recovery->cut_bytes > 0)
        log_warn("%s/%s: torn tail at offset %" PRIu64 ": %" PRIu64 " bytes %s", dir, name.text,
                 log->tail, recovery->cut_bytes, log->writable ? "cut off" : "ignored");
    return log->writable ? make_log_writable(generation, name.text, error) : KV_OK;
}

/* The checkpoint, if it can be used, else what the log says. */
static enum kv_status recover(struct generation *generation, int dir_fd, const char *dir,
                              struct recovery *recovery, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    if (log->progress.version_floor >= RECOVERY_VERSION_LIMIT)
        return kv_error_set(error, KV_CORRUPT, "%s: impossible version floor %" PRIu64,
                            file_name(log->identity.number, FILE_LOG).text,
                            log->progress.version_floor);
    recovery->from_checkpoint = checkpoint_load(generation, dir_fd);
    if (!recovery->from_checkpoint && index_count(generation->index) > 0 &&
        !index_clear(generation->index))
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory for the index",
                            file_name(log->identity.number, FILE_LOG).text);
    if (!recovery->from_checkpoint)
        return recover_by_reading(generation, dir_fd, dir, recovery, error);
    if (logfile_is_broken(log))
        return report_broken(log, file_name(log->identity.number, FILE_LOG).text, error);
    if (!log->writable)
        return KV_OK;
    logtail_allocate_room(log);
    if (lognotes_begin_chapter(log) != 0)
        return kv_error_set_errno(error, "%s: cannot write the header",
                                  file_name(log->identity.number, FILE_LOG).text);
    return KV_OK;
}

enum kv_status recovery_run(struct generation *generation, int dir_fd, const char *dir,
                            struct recovery *recovery, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    *recovery = (struct recovery){.keep_expired = recovery->keep_expired};
    enum kv_status status = recover(generation, dir_fd, dir, recovery, error);
    if (status == KV_OK && log->writable && lognotes_put_opening(log) != 0)
        status = kv_error_set_errno(error, "%s: cannot write the header",
                                    file_name(log->identity.number, FILE_LOG).text);
    return status == KV_OK ? KV_OK : recovery_explain(dir, status, error);
}
