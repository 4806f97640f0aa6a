#include "kvstore/sync/sync.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "kvstore/format/sizes.h"
#include "kvstore/core/thread.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/shared/shared_store.h"
#include "kvstore/sync/commit_together.h"
#include "kvstore/sync/links.h"
#include "kvstore/sync/sync_slot.h"
#include "kvstore/sync/sync_state.h"

/* How far the note of what is on disk may lag behind as long as another sync is to come: each note
 * is one more page that has to be made writable, protected and written at the next sync. */
#define NOTE_LAG_BYTES (UINT64_C(1) << 20)

/* As the kernel does by itself (vm.dirty_expire_centisecs). */
#define UNASKED_SYNC_MS 30000u

static uint64_t due_time_ns(const struct sync *sync)
{
    uint32_t delay_ms = context_durability(sync->context) == KVSTORE_SYNC_NONE
                            ? UNASKED_SYNC_MS
                            : context_sync_interval_ms(sync->context);
    return clock_monotonic_ns() + (uint64_t)delay_ms * 1000000u;
}

static bool is_dirty(const struct sync *sync, uint32_t number)
{
    return atomic_load(&sync->context->files[number].appended_bytes) >
           atomic_load(&sync->files[number].synced_position);
}

/* Moves the files whose time has come to the ready queue. Holds: mutex. */
static void ready_due_files(struct sync *sync)
{
    KV_ASSERT(mutex_is_held(&sync->mutex));
    while (sync->timed.count > 0) {
        uint32_t number = file_ring_first(&sync->timed);
        if (sync->files[number].due_ns > clock_monotonic_ns())
            break;
        file_ring_pop(&sync->timed);
        atomic_exchange(&sync->files[number].timed, false); /* see sync_within_interval */
        struct sync_file *file = &sync->files[number];
        file->apart |= file->in_log_only || file->last_refused != 0;
        if (is_dirty(sync, number) || file->note_lags || file->apart)
            sync_enqueue(sync, number);
    }
}

/* Sleeps until there may be work. At most one idle thread wakes up by the clock, when the first
 * timed file is due. Holds: mutex, released while the thread sleeps. */
static void wait_for_work(struct sync *sync)
{
    KV_ASSERT(mutex_is_held(&sync->mutex) && sync->ready.count == 0);
    sync->idle_count++;
    if (sync->timed.count > 0 && !sync->timer_watched) {
        uint64_t due_ns = sync->files[file_ring_first(&sync->timed)].due_ns;
        sync->timer_watched = true;
        thread_wait_until(&sync->work, &sync->mutex, due_ns);
        sync->timer_watched = false;
    } else {
        pthread_cond_wait(&sync->work, &sync->mutex);
    }
    sync->idle_count--;
}

/* Syncs the file itself and tells those who wait for that. Holds: the slot. */
static void sync_file(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    struct sync_snapshot snapshot = sync_take_snapshot(sync, number);
    struct logfile *log = &snapshot.generation->log;
    sync_cover(sync, number);
    if (snapshot.failed) {
        sync_publish(sync, number, UINT64_MAX, KV_NOT_DURABLE);
        return;
    }
    if (file->doomed) {
        sync_give_up(sync, number, EIO);
        return;
    }
    pthread_mutex_lock(&sync->mutex);
    bool needed = snapshot.position > atomic_load(&file->synced_position) || file->in_log_only ||
                  snapshot.refused != 0;
    sync_announce(file, snapshot.position);
    file->apart = false;
    bool note_may_lag = file->note_lags = atomic_load(&file->timed);
    pthread_mutex_unlock(&sync->mutex);

    if (needed && generation_sync(snapshot.generation) != 0) {
        sync_give_up(sync, number, errno);
        return;
    }
    if (logfile_is_broken(log)) { /* some of the snapshot may not have been in the file */
        sync_publish(sync, number, UINT64_MAX, KV_NOT_DURABLE);
        return;
    }
    if (needed) { /* a write that failed may have made the file longer, too */
        file->settled_salt = log->identity.salt;
        file->settled_bytes = snapshot.allocated_bytes;
        file->settled_tail = snapshot.tail;
    }
    if (snapshot.refused != 0)
        links_note_erased(sync, number, snapshot.refused);
    /* Nothing that was promised rests on the note: if one cannot be written, the next repeats it.
     * */
    KV_ASSERT(snapshot.settled_end >= log->progress.synced_offset);
    uint64_t lag_bytes = snapshot.settled_end - log->progress.synced_offset;
    log->progress.settled = __atomic_load_n(&sync->context->shared->settled, __ATOMIC_RELAXED);
    if (lag_bytes > 0 && (!note_may_lag || lag_bytes >= NOTE_LAG_BYTES))
        (void)logfile_note_progress(log, snapshot.settled_end, snapshot.max_version);
    sync_publish(sync, number, snapshot.position, KV_OK);
}

/* Syncs the first file of the ready queue. Holds: mutex, released meanwhile. */
static void sync_first_ready(struct sync *sync)
{
    uint32_t number = file_ring_pop(&sync->ready);
    struct sync_file *file = &sync->files[number];
    KV_ASSERT(file->queued);
    file->queued = false;
    if (file->busy) {
        file->again = true;
        return;
    }
    file->busy = true;
    if (sync->timed.count > 0 && !sync->timer_watched)
        pthread_cond_signal(&sync->work); /* let another one watch the time */
    pthread_mutex_unlock(&sync->mutex);
    sync_file(sync, number);
    sync_release_slot(sync, number);
    pthread_mutex_lock(&sync->mutex);
}

static void *sync_thread(void *argument)
{
    struct sync *sync = argument;
    pthread_mutex_lock(&sync->mutex);
    for (;;) {
        ready_due_files(sync);
        sync->signalled = false;
        if (sync->ready.count > 1 && commit_together(sync))
            continue;
        if (sync->ready.count > 0)
            sync_first_ready(sync);
        else if (sync->stop)
            break;
        else
            wait_for_work(sync);
    }
    pthread_mutex_unlock(&sync->mutex);
    return NULL;
}

/* Making and ending ---------------------------------------------------------------------------- */

static void sync_deallocate(struct sync *sync)
{
    for (uint32_t number = 0; sync->files && number < sync->context->datafiles; number++)
        pthread_cond_destroy(&sync->files[number].slot_free);
    free(sync->files);
    links_free(sync);
    commit_log_free(sync->commit.log);
    file_ring_free(&sync->ready);
    file_ring_free(&sync->timed);
    pthread_cond_destroy(&sync->work);
    pthread_mutex_destroy(&sync->mutex);
    free(sync);
}

enum kv_status sync_create(const struct store_context *context, struct sync **sync,
                           struct kv_error *error)
{
    struct sync *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", context->dir);
    created->context = context;
    created->thread_main = sync_thread;
    created->max_threads = (uint32_t)at_most(context->datafiles, SYNC_MAX_THREADS);
    created->commit.wanted =
        context->options.durability == KVSTORE_SYNC_ALWAYS && context->datafiles > 1;
    pthread_mutex_init(&created->mutex, NULL);
    thread_condition_init(&created->work);
    created->files = calloc(context->datafiles, sizeof *created->files);
    for (uint32_t number = 0; created->files && number < context->datafiles; number++)
        pthread_cond_init(&created->files[number].slot_free, NULL);
    created->links.to_try = created->links.to_tell = LINKS_NO_FILE;
    bool has_queues = file_ring_init(&created->ready, context->datafiles) &&
                      file_ring_init(&created->timed, context->datafiles);
    if (!created->files || !has_queues) {
        sync_deallocate(created);
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", context->dir);
    }
    int result = thread_start(&created->threads[0], "kv-sync", created->thread_main, created);
    if (result != 0) {
        sync_deallocate(created);
        return kv_error_set_no_thread(error, result, "%s: cannot start the sync thread",
                                      context->dir);
    }
    created->thread_count = 1;
    *sync = created;
    return KV_OK;
}

void sync_free(struct sync *sync)
{
    if (!sync)
        return;
    pthread_mutex_lock(&sync->mutex);
    sync->stop = true;
    uint32_t thread_count = sync->thread_count; /* none is started any more */
    pthread_cond_broadcast(&sync->work);
    pthread_mutex_unlock(&sync->mutex);
    for (uint32_t i = 0; i < thread_count; i++)
        pthread_join(sync->threads[i], NULL);
    KV_ASSERT(sync->ready.count == 0 && sync->idle_count == 0);
    sync_deallocate(sync);
}

/* For writers ---------------------------------------------------------------------------------- */

void sync_within_interval(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    /* The writer has appended before, and ready_due_files looks whether the file is dirty after the
     * same exchange: the file is either dirty to that look, or timed here. */
    if (atomic_exchange(&file->timed, true))
        return;
    pthread_mutex_lock(&sync->mutex); /* first: sync_hasten counts on it */
    file->due_ns = due_time_ns(sync);
    file_ring_push(&sync->timed, number);
    if (!sync->timer_watched)
        pthread_cond_signal(&sync->work);
    pthread_mutex_unlock(&sync->mutex);
}

void sync_note_written(struct sync *sync, uint32_t number)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&sync->files[number].written_since_ms, &none,
                                   clock_monotonic_coarse_ms());
}

void sync_after_append(struct sync *sync, const struct store_context *context,
                       struct datafile *file)
{
    KV_ASSERT(lockset_is_write_held(context->locks, file->number));
    if (file->sync_timer_armed)
        return;
    file->sync_timer_armed = true;
    sync_note_written(sync, file->number);
    if (context_durability(context) != KVSTORE_SYNC_NONE)
        sync_within_interval(sync, file->number);
}

void sync_after_placing(struct sync *sync, const struct store_context *context,
                        const struct datafile *file)
{
    KV_ASSERT(lockset_is_write_held(context->locks, file->number));
    if (context_durability(context) == KVSTORE_SYNC_NONE)
        sync_within_interval(sync, file->number);
}

/* Writes the format to the header. *generation NULL: nothing is to be done. -1 and errno: the
 * header cannot be written. Holds: the slot. */
static int write_format(struct sync *sync, uint32_t number, struct generation **generation)
{
    const struct store_context *context = sync->context;
    struct datafile *file = &context->files[number];
    int result = 0;
    lockset_write_lock(context->locks, number);
    struct logfile *log = &file->current->log;
    bool is_due =
        !datafile_is_read_only(file) && log->identity.format_version != FILE_FORMAT_NEWEST;
    *generation = is_due ? file->current : NULL;
    if (is_due)
        result = lognotes_put_newest_format(log);
    int error_number = errno;
    lockset_write_unlock(context->locks, number);
    errno = error_number;
    return result;
}

/* The slot keeps others from syncing the file meanwhile: after a failure a second sync would report
 * success. */
void sync_raise_format(struct sync *sync, uint32_t number)
{
    const struct store_context *context = sync->context;
    struct generation *generation;
    sync_take_slot(sync, number);
    int result = write_format(sync, number, &generation);
    if (result == 0 && generation)
        result = generation_sync(generation);
    if (result != 0) {
        sync_give_up(sync, number, errno);
    } else if (generation) {
        lockset_write_lock(context->locks, number);
        generation->log.identity.format_version = FILE_FORMAT_NEWEST;
        datafile_pass_format(&context->files[number]);
        lockset_write_unlock(context->locks, number);
    }
    sync_release_slot(sync, number);
}

void sync_hasten(struct sync *sync)
{
    uint64_t due_ns = due_time_ns(sync);
    pthread_mutex_lock(&sync->mutex);
    for (uint32_t number = 0; number < sync->context->datafiles; number++)
        if (sync->files[number].due_ns > due_ns)
            sync->files[number].due_ns = due_ns;
    pthread_cond_broadcast(&sync->work); /* the thread that sleeps by the clock looks again */
    pthread_mutex_unlock(&sync->mutex);
    if (context_durability(sync->context) == KVSTORE_SYNC_NONE)
        return;
    for (uint32_t number = 0; number < sync->context->datafiles; number++)
        if (is_dirty(sync, number))
            sync_within_interval(sync, number);
}

static bool position_is_durable(const struct sync_file *file, uint64_t position)
{
    return position <= atomic_load_explicit(&file->durable_position, memory_order_acquire);
}

/* The position of a ticket, which the caller may have made up: never behind what was appended. */
static uint64_t bounded_position(const struct sync *sync, struct kvstore_ticket ticket)
{
    return at_most(ticket.position, atomic_load(&sync->context->files[ticket.file].appended_bytes));
}

void sync_request(struct sync *sync, struct kvstore_ticket ticket)
{
    pthread_mutex_lock(&sync->mutex);
    uint64_t position = bounded_position(sync, ticket);
    sync_want(sync, ticket.file, position);
    links_want(sync, ticket.file, position);
    pthread_mutex_unlock(&sync->mutex);
}

bool sync_is_durable(const struct sync *sync, struct kvstore_ticket ticket)
{
    return position_is_durable(&sync->files[ticket.file], ticket.position);
}

uint64_t sync_durable_position(const struct sync *sync, uint32_t file)
{
    return atomic_load_explicit(&sync->files[file].durable_position, memory_order_acquire);
}

enum kv_status sync_wait(struct sync *sync, struct kvstore_ticket ticket)
{
    struct sync_file *file = &sync->files[ticket.file];
    uint64_t position = bounded_position(sync, ticket);
    pthread_mutex_lock(&sync->mutex);
    while (!position_is_durable(file, position) && !atomic_load(&file->failed)) {
        links_want(sync, ticket.file, position);
        bool is_synced = position <= atomic_load(&file->synced_position); /* others are not */
        if (!is_synced && !file->busy && !file->queued) {
            /* Nobody syncs the file or is to: this thread does, so that none has to be woken. */
            file->busy = true;
            pthread_mutex_unlock(&sync->mutex);
            sync_file(sync, ticket.file);
            sync_release_slot(sync, ticket.file);
            pthread_mutex_lock(&sync->mutex);
            continue;
        }
        /* Which sync covers the position is asked again after each wake-up: one that had the slot
         * but was not announced yet may turn out to have begun before the write. */
        uint32_t group = is_synced ? EVENTCOUNT_EVERY_GROUP
                                   : sync_group_of(sync_want(sync, ticket.file, position));
        uint32_t changes = eventcount_prepare(&file->waiters);
        pthread_mutex_unlock(&sync->mutex);
        eventcount_wait(&file->waiters, changes, group);
        pthread_mutex_lock(&sync->mutex);
    }
    pthread_mutex_unlock(&sync->mutex);
    return position_is_durable(file, position) ? KV_OK : KV_NOT_DURABLE;
}

enum kv_status sync_settle(struct sync *sync, uint64_t transaction)
{
    struct kvstore_ticket ticket;
    enum kv_status status = KV_OK;
    while (status == KV_OK && links_first_open(sync, transaction, &ticket)) {
        if (ticket.position == LINKS_NO_END)
            clock_sleep_ms(1);
        else
            status = sync_wait(sync, ticket);
    }
    struct refused_part part, tried = {LINKS_NO_FILE, 0};
    while (status == KV_OK && links_first_refused(sync, transaction, &part)) {
        if (part.file == tried.file && part.transaction == tried.transaction)
            return KV_NOT_DURABLE;
        tried = part;
        sync_take_slot(sync, part.file);
        sync_file(sync, part.file);
        sync_release_slot(sync, part.file);
    }
    return status;
}

void sync_set_listener(struct sync *sync, kvstore_sync_listener listener, void *context)
{
    pthread_mutex_lock(&sync->mutex);
    sync->listener_context = context;
    __atomic_store_n(&sync->listener, listener, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&sync->mutex);
}

struct sync_counts sync_counts(struct sync *sync, uint32_t number)
{
    const struct sync_file *file = &sync->files[number];
    pthread_mutex_lock(&sync->mutex);
    struct sync_counts counts = {atomic_load(&file->synced_position), file->syncs, file->failures,
                                 0};
    uint64_t since_ms = file->covered_since_ms;
    pthread_mutex_unlock(&sync->mutex);
    if (since_ms == 0)
        since_ms = atomic_load(&file->written_since_ms);
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (since_ms != 0 && is_dirty(sync, number))
        counts.unsynced_ms = now_ms > since_ms ? now_ms - since_ms : 1;
    return counts;
}
