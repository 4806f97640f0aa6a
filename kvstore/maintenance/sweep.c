#include "kvstore/maintenance/sweep.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "kvstore/cache/cache.h"
#include "kvstore/core/thread.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/maintenance/compaction_queue.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/found_record.h"
#include "kvstore/table/position.h"

#define NS_PER_MS UINT64_C(1000000)

/* About how many bytes of records are verified and taken out under one lock. */
#define HOLD_BYTES (UINT64_C(1) << 20)

struct sweeper {
    struct maintenance with;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    bool stop;           /* covered by the mutex */
    bool told;           /* covered by the mutex: an expiry was written while dormant */
    atomic_bool dormant; /* the thread sleeps, or is about to, until it is told */
};

/* Notes that the entry goes without a record, if it has expired: a start that reads the log would
 * bring the entry back if the clock were set back meanwhile. The noted time is never in the future,
 * since entries that live until then would go, too. A note of a later time, left from before a
 * clock was set back, stays as it is: otherwise entries that were written later would count as
 * gone. False: the note cannot be written. Holds: the file's lock for writing. */
static bool note_gone(struct logfile *log, const struct lookup *lookup)
{
    if (lookup->record.expiry_ms <= log->gone.expiry_ms && lookup->offset < log->gone.end)
        return true;
    uint64_t now_ms = clock_realtime_ms();
    if (!record_has_expired(&lookup->record, now_ms) || now_ms < log->gone.expiry_ms)
        return true;
    struct file_gone gone = {log->gone.version, now_ms, log->tail};
    return lognotes_put_gone(log, &gone) == 0;
}

bool sweep_out(struct cache *cache, struct datafile *file, struct lookup *lookup)
{
    struct logfile *log = &file->current->log;
    if (position_void_stream(log) != 0)
        return false;
    if (!note_gone(log, lookup))
        return false;
    /* The cache would not give the entry out, unless the clock were set back. */
    if (cache)
        cache_remove(cache, file->number, lookup->hash, lookup->record.key);
    datafile_expire(file, lookup);
    return true;
}

/* Takes the entry of a lookup out by a record, a deletion with the expiry, for those who follow the
 * changes; does not use the reserve of deletions. KV_NO_SPACE: there is no room, so that the entry
 * can only go without a record; other failures: nothing can be written, and the entry stays for
 * now. Holds: the file's lock for writing. */
static enum kv_status write_expiry_record(const struct maintenance *with, struct datafile *file,
                                          struct lookup *lookup)
{
    KV_ASSERT(lockset_is_write_held(with->context->locks, file->number));
    struct record record = {
        .kind = RECORD_DELETE, .expiry_ms = lookup->record.expiry_ms, .key = lookup->record.key};
    uint64_t bytes = record_size(record.key.size, 0, true) + file->current->words->reserve_bytes;
    if (datafile_is_read_only(file))
        return KV_READ_ONLY;
    if (logtail_ensure_room_for_data(&file->current->log, bytes, LOGTAIL_SPARE_BYTES) != KV_OK)
        return KV_NO_SPACE;
    if (with->cache)
        cache_remove(with->cache, file->number, lookup->hash, record.key);
    enum kv_status status =
        datafile_append(with->context, file, lookup, &record, kv_slice(NULL, 0), NULL);
    if (status != KV_OK)
        return status;
    file->expired++;
    sync_after_append(with->sync, with->context, file);
    past_logs_tell(with->past, file);
    return KV_OK;
}

/* Takes the entry of a lookup out, by a record if changes are kept and there is room. False: the
 * entry stays, also if it could go only without a record, while the file is copied. Holds: the
 * file's lock for writing. */
static bool sweep_remove(const struct maintenance *with, struct datafile *file,
                         struct lookup *lookup)
{
    if (!past_logs_are_wanted(with->past))
        return !file->copying && sweep_out(with->cache, file, lookup);
    enum kv_status status = write_expiry_record(with, file, lookup);
    if (status != KV_NO_SPACE || file->copying)
        return status == KV_OK;
    bool out = sweep_out(with->cache, file, lookup);
    if (out)
        past_logs_tell(with->past, file); /* a follower that waits learns that it misses a change */
    return out;
}

/* Takes the entry of `item` out if it has expired, else lowers the bound to its expiry. A record
 * that is damaged or cannot be read stays, for reads to report it. Returns the bytes of an expired
 * record, whose entry it took out if it could. Holds: the file's lock for writing. */
static uint64_t sweep_item(const struct maintenance *with, struct datafile *file,
                           const struct index_item *item, uint64_t now_ms, uint64_t *bound_ms)
{
    struct generation *generation = file->current;
    struct lookup lookup = {.hash = item->hash, .found = true, .offset = item->offset_bytes};
    if (logfile_parse(&generation->log, READ_BUFFER_VISIT, lookup.offset, &lookup.record,
                      &lookup.size_bytes) != RECORD_VALID)
        return 0;
    if (!record_has_expired(&lookup.record, now_ms)) {
        if (lookup.record.expiry_ms != 0 && lookup.record.expiry_ms < *bound_ms)
            *bound_ms = lookup.record.expiry_ms;
        return 0;
    }
    if (found_record_verify(with->context, file, READ_BUFFER_VISIT, &lookup) != KV_OK)
        return 0;
    uint64_t offset;
    index_probe_start(&lookup.probe, generation->index, lookup.hash);
    while (index_probe_next(&lookup.probe, &offset)) {
        if (offset != lookup.offset)
            continue;
        if (!sweep_remove(with, file, &lookup))
            *bound_ms = 0;
        return lookup.size_bytes;
    }
    return 0;
}

/* Returns true if entries can go now. By a record they cannot if nothing can be written. Without a
 * record they cannot while the file is copied: they would go out of the log that is copied and stay
 * in the copy, to be subtracted once more after the compaction. Holds: the file's lock. */
static bool may_sweep(const struct maintenance *with, const struct datafile *file)
{
    return past_logs_are_wanted(with->past) ? !datafile_is_read_only(file) : !file->copying;
}

/* The state of the sweep of one file. */
struct sweep {
    uint64_t hash;        /* the start of a segment ... */
    uint64_t compactions; /* ... of the index that the file had after so many compactions */
};

/* Sweeps the first segment from sweep->hash on that may hold an expired entry, or a part of the
 * segment, under one lock. It moves past the segment once all of it was looked at, or nothing could
 * be taken out. */
static void sweep_segment(const struct maintenance *with, struct datafile *file,
                          struct sweep *sweep)
{
    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t now_ms = clock_realtime_ms();
    const struct store_context *context = with->context;
    lockset_write_lock(context->locks, file->number);
    if (sweep->compactions != file->compactions)
        *sweep = (struct sweep){0, file->compactions};
    logfile_begin(&file->current->log, READ_BUFFER_VISIT);
    struct index *index = file->current->index;
    uint64_t start =
        may_sweep(with, file) ? index_next_expiring(index, sweep->hash, now_ms) : INDEX_HASH_END;
    sweep->hash = start;
    if (start < INDEX_HASH_END && index_expiry_bound(index, (uint32_t)start) <= now_ms) {
        size_t count = index_collect(index, start, items, INDEX_SEGMENT_SLOTS, &sweep->hash);
        uint64_t bound_ms = UINT64_MAX;
        uint64_t swept_bytes = 0, expired = file->expired;
        size_t i = 0;
        for (; i < count && swept_bytes < HOLD_BYTES; i++)
            swept_bytes += sweep_item(with, file, &items[i], now_ms, &bound_ms);
        if (i == count)
            generation_bound_expiry(file->current, (uint32_t)start, bound_ms);
        else if (file->expired > expired)
            sweep->hash = start; /* this segment once more, for its rest */
    }
    compaction_queue_consider(with->compactions, file, &context->options,
                              context->options.compact_min_bytes);
    lockset_write_unlock(context->locks, file->number);
    logfile_end(context->options.io);
}

static bool sweeper_must_stop(struct sweeper *sweeper)
{
    pthread_mutex_lock(&sweeper->mutex);
    bool stop = sweeper->stop;
    pthread_mutex_unlock(&sweeper->mutex);
    return stop;
}

/* Returns how many entries with an expiry are left. */
static uint64_t sweep_file(struct sweeper *sweeper, struct datafile *file)
{
    const struct store_context *context = sweeper->with.context;
    lockset_read_lock(context->locks, file->number);
    uint64_t expiring_keys = file->current->words->expiring_keys;
    lockset_read_unlock(context->locks, file->number);
    struct sweep sweep = {0};
    while (expiring_keys > 0 && sweep.hash < INDEX_HASH_END && !sweeper_must_stop(sweeper))
        sweep_segment(&sweeper->with, file, &sweep);
    lockset_read_lock(context->locks, file->number);
    expiring_keys = file->current->words->expiring_keys;
    lockset_read_unlock(context->locks, file->number);
    return expiring_keys;
}

/* Sweeps all files. False: no entry of the store has an expiry. An expiry that is written while
 * this runs is either seen here, or its writer, which has the file's lock later, sees that the
 * sweeper is dormant. */
static bool sweep_store(struct sweeper *sweeper)
{
    uint64_t expiring_keys = 0;
    atomic_store(&sweeper->dormant, true);
    for (uint32_t number = 0; number < sweeper->with.context->datafiles; number++)
        expiring_keys += sweep_file(sweeper, &sweeper->with.context->files[number]);
    if (expiring_keys > 0)
        atomic_store(&sweeper->dormant, false);
    return expiring_keys > 0;
}

static void *sweeper_thread(void *argument)
{
    struct sweeper *sweeper = argument;
    pthread_mutex_lock(&sweeper->mutex);
    while (!sweeper->stop) {
        sweeper->told = false;
        pthread_mutex_unlock(&sweeper->mutex);
        bool may_go_dormant = !sweep_store(sweeper);
        pthread_mutex_lock(&sweeper->mutex);
        while (may_go_dormant && !sweeper->told && !sweeper->stop)
            pthread_cond_wait(&sweeper->work, &sweeper->mutex);
        uint64_t wake_ns =
            clock_monotonic_ns() + sweeper->with.context->options.sweep_interval_ms * NS_PER_MS;
        while (!sweeper->stop && clock_monotonic_ns() < wake_ns)
            thread_wait_until(&sweeper->work, &sweeper->mutex, wake_ns);
    }
    pthread_mutex_unlock(&sweeper->mutex);
    return NULL;
}

static void sweeper_deallocate(struct sweeper *sweeper)
{
    pthread_cond_destroy(&sweeper->work);
    pthread_mutex_destroy(&sweeper->mutex);
    free(sweeper);
}

enum kv_status sweeper_create(const struct maintenance *with, struct sweeper **sweeper,
                              struct kv_error *error)
{
    struct sweeper *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", with->context->dir);
    created->with = *with;
    pthread_mutex_init(&created->mutex, NULL);
    thread_condition_init(&created->work);
    int result = thread_start(&created->thread, "kv-sweep", sweeper_thread, created);
    if (result != 0) {
        sweeper_deallocate(created);
        return kv_error_set_no_thread(error, result, "%s: cannot start the sweep thread",
                                      with->context->dir);
    }
    *sweeper = created;
    return KV_OK;
}

void sweeper_free(struct sweeper *sweeper)
{
    if (!sweeper)
        return;
    pthread_mutex_lock(&sweeper->mutex);
    sweeper->stop = true;
    pthread_cond_signal(&sweeper->work);
    pthread_mutex_unlock(&sweeper->mutex);
    pthread_join(sweeper->thread, NULL);
    sweeper_deallocate(sweeper);
}

void sweeper_note_expiry(struct sweeper *sweeper)
{
    if (!atomic_load_explicit(&sweeper->dormant, memory_order_relaxed))
        return;
    atomic_store(&sweeper->dormant, false);
    pthread_mutex_lock(&sweeper->mutex);
    sweeper->told = true;
    pthread_cond_signal(&sweeper->work);
    pthread_mutex_unlock(&sweeper->mutex);
}
