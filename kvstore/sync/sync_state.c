#include "kvstore/sync/sync_state.h"

#include "kvstore/core/thread.h"

/* One thread is enough to go on; the first was started at open. */
void sync_wake_thread(struct sync *sync)
{
    sync->signalled = true;
    if (sync->ready.count > sync->idle_count && sync->thread_count < sync->max_threads &&
        !sync->stop &&
        thread_start(&sync->threads[sync->thread_count], "kv-sync", sync->thread_main, sync) == 0)
        sync->thread_count++;
    pthread_cond_signal(&sync->work);
}

/* What can be committed together waits for the thread that will look for it. Holds: mutex. */
static bool is_awaited(const struct sync *sync, const struct sync_file *file)
{
    return !file->apart && commit_is_possible(sync) && (sync->commit.busy || sync->signalled);
}

void sync_enqueue(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    if (file->busy) {
        file->again = true;
    } else if (!file->queued) {
        file->queued = true;
        file_ring_push(&sync->ready, number);
        if (!is_awaited(sync, file))
            sync_wake_thread(sync);
    }
}

struct sync_snapshot sync_take_snapshot(struct sync *sync, uint32_t number)
{
    const struct store_context *context = sync->context;
    struct datafile *file = &context->files[number];
    struct sync_snapshot snapshot;
    lockset_read_lock(context->locks, number);
    snapshot.generation = file->current;
    snapshot.position = atomic_load(&file->appended_bytes);
    snapshot.tail = file->current->log.tail;
    snapshot.allocated_bytes = file->current->log.allocated_bytes;
    snapshot.max_version = file->current->words->max_version;
    snapshot.failed = datafile_is_read_only(file);
    file->sync_timer_armed = false; /* whoever writes after this has to see to a later sync */
    lockset_read_unlock(context->locks, number);
    return snapshot;
}

void sync_announce(struct sync_file *file, uint64_t position)
{
    file->started += position > atomic_load(&file->synced_position);
    file->covered_position = position;
}
