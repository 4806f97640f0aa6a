#include "kvstore/sync/sync_state.h"

#include "common/assert/assert.h"
#include "kvstore/core/thread.h"
#include "kvstore/log/logtail.h"
#include "kvstore/table/placing.h"

/* A thread that cannot be started is no failure: the one that was started at open does it all. */
void sync_wake_thread(struct sync *sync)
{
    KV_ASSERT(mutex_is_held(&sync->mutex));
    KV_ASSERT(sync->idle_count <= sync->thread_count && sync->thread_count <= sync->max_threads);
    sync->signalled = true;
    if (sync->ready.count > sync->idle_count && sync->thread_count < sync->max_threads &&
        !sync->stop &&
        thread_start(&sync->threads[sync->thread_count], "kv-sync", sync->thread_main, sync) == 0)
        sync->thread_count++;
    pthread_cond_signal(&sync->work);
}

void sync_enqueue(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    KV_ASSERT(mutex_is_held(&sync->mutex));
    if (file->busy) {
        file->again = true;
        return;
    }
    if (file->queued)
        return;
    file->queued = true;
    file_ring_push(&sync->ready, number);
    /* A file that can be committed with others waits for the thread that will look for it. */
    bool awaited =
        !file->apart && commit_is_possible(sync) && (sync->commit.busy || sync->signalled);
    if (!awaited)
        sync_wake_thread(sync);
}

uint32_t sync_want(struct sync *sync, uint32_t number, uint64_t position)
{
    const struct sync_file *file = &sync->files[number];
    KV_ASSERT(mutex_is_held(&sync->mutex));
    bool under_way = file->busy && !atomic_load(&file->failed) &&
                     position > atomic_load(&file->synced_position) &&
                     position <= file->covered_position;
    if (under_way)
        return file->started;
    sync_enqueue(sync, number);
    return file->started + 1;
}

struct sync_snapshot sync_take_snapshot(struct sync *sync, uint32_t number)
{
    const struct store_context *context = sync->context;
    struct datafile *file = &context->files[number];
    struct sync_snapshot snapshot;
    KV_ASSERT(sync->files[number].busy);
    lockset_read_lock(context->locks, number);
    snapshot.generation = file->current;
    snapshot.position = atomic_load(&file->appended_bytes);
    snapshot.tail = file->current->log.tail;
    snapshot.settled_end = placing_settled_end(file, file->current);
    /* Only the slot's holder writes it with the lock for reading. */
    file->current->promised_version = file->current->words->max_version;
    snapshot.extents_end = file->current->extents_end;
    snapshot.allocated_bytes = file->current->log.allocated_bytes;
    snapshot.max_version = file->current->words->max_version;
    snapshot.failed = datafile_is_read_only(file);
    snapshot.refused = sync->files[number].last_refused;
    if (snapshot.refused != 0 &&
        (snapshot.failed || logtail_erase_remains(&file->current->log) != KV_OK))
        snapshot.refused = 0;
    file->sync_timer_armed = false; /* whoever writes after this has to see to a later sync */
    lockset_read_unlock(context->locks, number);
    KV_ASSERT(snapshot.tail >= FILE_HEADER_BYTES && snapshot.tail <= snapshot.allocated_bytes);
    KV_ASSERT(snapshot.position >= atomic_load(&sync->files[number].synced_position));
    return snapshot;
}

void sync_announce(struct sync_file *file, uint64_t position)
{
    KV_ASSERT(file->busy && position >= file->covered_position);
    file->started += position > atomic_load(&file->synced_position);
    file->covered_position = position;
}
