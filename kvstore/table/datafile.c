#include "kvstore/table/datafile.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "kvstore/cache/cache.h"
#include "kvstore/table/checkpoint.h"
#include "kvstore/maintenance/compact.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/logtail.h"
#include "kvstore/table/recovery.h"
#include "kvstore/api/store.h"
#include "kvstore/maintenance/sweep.h"
#include "kvstore/sync/sync.h"

/* Lines about damaged records, a file. */
#define DAMAGE_LINES 10u

/* A smaller log than a block of the disk gives nothing back. */
#define ROOM_MIN_BYTES UINT64_C(4096)

/* Between two lines in the log about writes that find no room. */
#define NO_SPACE_TOLD_EVERY_MS 60000u

static enum kv_status check_identity(const struct kvstore *store, uint32_t number,
                                     const struct file_identity *identity, const char *name,
                                     struct kv_error *error)
{
    if (identity->datafiles != store->datafiles)
        return kv_error_set(
            error, KV_MISMATCH,
            "%s/%s: the file belongs to a store of %u data files, data.0000 says %u", store->dir,
            name, identity->datafiles, store->datafiles);
    if (identity->number != number)
        return kv_error_set(error, KV_CORRUPT,
                            "%s/%s: the file says that it is data file %u; was it renamed?",
                            store->dir, name, identity->number);
    if (identity->store_seed != store->seed)
        return kv_error_set(error, KV_CORRUPT,
                            "%s/%s: the file belongs to another store than data.0000", store->dir,
                            name);
    return KV_OK;
}

enum kv_status datafile_open(const struct kvstore *store, uint32_t number, struct kv_error *error)
{
    struct datafile *file = &store->files[number];
    struct file_name name = file_name(number, FILE_LOG);
    file->number = number;
    file->read_only = store->options.read_only;

    struct logfile log;
    enum kv_status status = logfile_open(&log, store->options.io, store->dir_fd, name.text,
                                         !store->options.read_only, error);
    if (status == KV_NOT_FOUND)
        return kv_error_set(
            error, KV_CORRUPT,
            "%s/%s: the file is missing; the store has %u data files; bring it back, "
            "or save what the others hold: kvcheck --salvage OUT %s",
            store->dir, name.text, store->datafiles, store->dir);
    if (status != KV_OK)
        return recovery_explain(store->dir, status, error);
    status = check_identity(store, number, &log.identity, name.text, error);
    if (status != KV_OK) {
        logfile_close(&log);
        return status;
    }
    log.notes_are_missing |=
        memcmp(&log.identity.hash_key, &store->hash_key, sizeof store->hash_key) != 0;
    log.identity.hash_key = store->hash_key;
    struct generation *generation;
    status = generation_create(log, &generation);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s/%s: no memory (is it limited: ulimit -v?)",
                            store->dir, name.text);

    struct recovery recovery = {0};
    if (!store->is_new)
        status = recovery_run(generation, store->dir_fd, store->dir, &recovery, error);
    if (status != KV_OK) {
        generation_free(generation);
        return status;
    }
    file->recovered_bytes_cut = recovery.cut_bytes;
    file->from_checkpoint = recovery.from_checkpoint;
    datafile_set_current(store, file, generation);
    return KV_OK;
}

void datafile_set_current(const struct kvstore *store, struct datafile *file,
                          struct generation *generation)
{
    if (store->readers)
        index_keep_directories(generation->index);
    if (store->options.durability == KVSTORE_SYNC_ALWAYS)
        logtail_expect_syncs(&generation->log);
    __atomic_store_n(&file->current, generation, __ATOMIC_SEQ_CST);
}

static enum kv_status finish(const struct kvstore *store, struct datafile *file,
                             struct kv_error *error)
{
    struct generation *generation = file->current;
    struct logfile *log = &generation->log;
    struct file_name name = file_name(file->number, FILE_LOG);
    if (logfile_is_broken(log))
        return kv_error_set(error, KV_NOT_DURABLE,
                            "%s/%s: the file could not be read; its last writes may be lost",
                            store->dir, name.text);
    if (file->read_only)
        return kv_error_set(error, KV_NOT_DURABLE,
                            "%s/%s: a sync of the file has failed; its last writes may be lost",
                            store->dir, name.text);
    if (logfile_sync(log) != 0)
        return kv_error_set(error, KV_NOT_DURABLE, "%s/%s: can not sync the file: %s", store->dir,
                            name.text, strerror(errno));
    if (logfile_note_progress(log, log->tail, generation->max_version) != 0)
        return kv_error_set_errno(error, "%s/%s: can not write the header", store->dir, name.text);
    return checkpoint_write(generation, store->dir_fd, error);
}

enum kv_status datafile_close(const struct kvstore *store, uint32_t number, struct kv_error *error)
{
    struct datafile *file = &store->files[number];
    enum kv_status status = KV_OK;
    if (!store->options.read_only)
        status = finish(store, file, error);
    generation_free(file->current);
    file->current = NULL;
    return status;
}

/* Repeats the record at `offset` of the current log in the next generation, from the log's bytes:
 * those of the caller may have changed meanwhile. */
static void mirror(struct datafile *file, uint32_t hash, uint64_t offset)
{
    struct record record;
    struct lookup lookup;
    lookup.error = 0;
    uint64_t size_bytes;
    const struct logfile *log = &file->current->log;
    logfile_begin(log, READ_BUFFER_MIRROR);
    enum record_verdict verdict =
        logfile_load(log, READ_BUFFER_MIRROR, offset, &record, &size_bytes);
    if (verdict == RECORD_VALID)
        generation_find(file->next, hash, record.key, &lookup);
    if (verdict != RECORD_VALID || lookup.error != 0) {
        file->next_status = verdict == RECORD_INVALID ? KV_CORRUPT : KV_IO;
        return;
    }
    file->next_status = generation_append(file->next, &lookup, &record, kv_slice(NULL, 0));
}

static void tell_background(struct kvstore *store, struct datafile *file,
                            const struct record *record)
{
    if (store->options.durability != KVSTORE_SYNC_NONE && !file->sync_timer_armed) {
        file->sync_timer_armed = true;
        sync_within_interval(store->sync, file->number);
    }
    if (record->expiry_ms != 0)
        sweeper_note_expiry(store->sweeper);
    datafile_consider_compaction(store, file, false);
}

/* For whoever looks after the daemon; those who write are told each time. */
static void tell_no_space(struct kvstore *store, const struct datafile *file)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t told_ms = atomic_load(&store->no_space_told_ms);
    if ((told_ms != 0 && now_ms - told_ms < NO_SPACE_TOLD_EVERY_MS) ||
        !atomic_compare_exchange_strong(&store->no_space_told_ms, &told_ms, now_ms))
        return;
    log_error(
        "%s/%s: no space left for the data: the disk, a quota or the file is full; writes are "
        "refused until there is, reads go on (this is told once a minute)",
        store->dir, file_name(file->number, FILE_LOG).text);
}

enum kv_status datafile_append(struct kvstore *store, struct datafile *file, struct lookup *lookup,
                               struct record *record, struct kv_slice value_tail,
                               struct kvstore_written *written)
{
    struct generation *current = file->current;
    uint64_t offset = current->log.tail;
    record->version = current->max_version + 1;
    enum kv_status status = generation_append(current, lookup, record, value_tail);
    if (status == KV_NO_SPACE) {
        file->full = true;
        compactor_want_room(store->compactor);
        tell_no_space(store, file);
    }
    if (status == KV_IO && logfile_is_broken(&current->log))
        datafile_tell_broken(store, file, &current->log);
    if (status != KV_OK)
        return status;
    if (file->full && record->kind != RECORD_DELETE) /* which has a reserve */
        file->full = false;
    if (store->cache)
        cache_remove(store->cache, file->number, lookup->hash, record->key);
    if (file->next && file->next_status == KV_OK)
        mirror(file, lookup->hash, offset);

    uint64_t appended = atomic_load_explicit(&file->appended_bytes, memory_order_relaxed) +
                        (current->log.tail - offset);
    atomic_store_explicit(&file->appended_bytes, appended, memory_order_release);
    if (written) {
        written->version = record->version;
        written->ticket = (struct kvstore_ticket){file->number, appended};
        written->record_bytes = current->log.tail - offset;
    }
    tell_background(store, file, record);
    return KV_OK;
}

void datafile_expire(struct kvstore *store, struct datafile *file, struct lookup *lookup)
{
    /* It would not be given out, unless the clock is set back. */
    if (store->cache)
        cache_remove(store->cache, file->number, lookup->hash, lookup->record.key);
    generation_forget(file->current, lookup);
    file->expired++;
}

static const char *last_line(unsigned told)
{
    return told + 1 == DAMAGE_LINES ? " (further damage in this file is not told)" : "";
}

enum kv_status datafile_tell_broken(const struct kvstore *store, const struct datafile *file,
                                    const struct logfile *log)
{
    if (!atomic_exchange(&log->guard->told, true))
        log_error("%s/%s: the file can not be read at offset %" PRIu64
                  ": an error of the disk, or somebody has shortened it; it takes no more writes; "
                  "check the disk, then open the store again",
                  store->dir, file_name(file->number, FILE_LOG).text,
                  atomic_load(&log->guard->fault_offset));
    return KV_IO;
}

enum kv_status datafile_tell_damage(const struct kvstore *store, struct datafile *file,
                                    uint64_t offset)
{
    const struct logfile *log = &datafile_current(file)->log;
    if (logfile_is_broken(log))
        return datafile_tell_broken(store, file, log);
    unsigned told = atomic_fetch_add_explicit(&file->damage_told, 1, memory_order_relaxed);
    if (told < DAMAGE_LINES)
        log_error("%s/%s: the record at offset %" PRIu64
                  " is damaged: its checksum does not hold; to "
                  "save what is intact, stop the store, then: kvcheck --salvage OUT %s%s",
                  store->dir, file_name(file->number, FILE_LOG).text, offset, store->dir,
                  last_line(told));
    return KV_CORRUPT;
}

enum kv_status datafile_tell_unreadable(const struct kvstore *store, struct datafile *file,
                                        uint64_t offset, int error_number)
{
    if (error_number == ENOMEM)
        return KV_NO_MEMORY;
    unsigned told = atomic_fetch_add_explicit(&file->damage_told, 1, memory_order_relaxed);
    if (told < DAMAGE_LINES)
        log_error("%s/%s: the record at offset %" PRIu64 " can not be read: %s; check the disk%s",
                  store->dir, file_name(file->number, FILE_LOG).text, offset,
                  error_number == ENODATA ? "the file is shorter than it was"
                                          : strerror(error_number),
                  last_line(told));
    return KV_IO;
}

void datafile_consider_compaction(struct kvstore *store, struct datafile *file, bool for_room)
{
    uint64_t min_bytes = for_room ? ROOM_MIN_BYTES : store->options.compact_min_bytes;
    uint64_t percent = store->options.compact_dead_percent;
    uint64_t log_bytes = file->current->log.tail - FILE_HEADER_BYTES;
    if (file->compaction_wanted || percent >= 100 || datafile_is_read_only(file) ||
        log_bytes < min_bytes || generation_dead_bytes(file->current) * 100 < log_bytes * percent)
        return;
    file->compaction_wanted = true;
    compactor_want(store->compactor, file->number);
}
