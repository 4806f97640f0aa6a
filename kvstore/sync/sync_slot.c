#include "kvstore/sync/sync_slot.h"

#include <pthread.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/report/log.h"
#include "kvstore/sync/links.h"
#include "kvstore/sync/sync_state.h"

void sync_take_slot(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    KV_ASSERT(!lockset_is_held(sync->context->locks, number));
    pthread_mutex_lock(&sync->mutex);
    file->slot_waiters++;
    while (file->busy && !file->handed_over)
        pthread_cond_wait(&file->slot_free, &sync->mutex);
    file->slot_waiters--;
    file->handed_over = false;
    file->busy = true;
    pthread_mutex_unlock(&sync->mutex);
}

/* The slot goes to a waiter without being free in between: a sync that was asked for meanwhile
 * would take it before the waiter is awake, each time. */
void sync_release_slot(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    pthread_mutex_lock(&sync->mutex);
    KV_ASSERT(file->busy && !file->handed_over);
    file->busy = file->handed_over = file->slot_waiters > 0;
    if (file->busy) {
        pthread_cond_signal(&file->slot_free);
    } else if (file->again) {
        file->again = false;
        sync_enqueue(sync, number);
    }
    pthread_mutex_unlock(&sync->mutex);
}

void sync_cover(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    uint64_t since_ms = atomic_exchange(&file->written_since_ms, 0);
    pthread_mutex_lock(&sync->mutex);
    KV_ASSERT(file->busy);
    if (file->covered_since_ms == 0)
        file->covered_since_ms = since_ms;
    pthread_mutex_unlock(&sync->mutex);
}

/* The commit log begins anew when the last file that was durable by it alone is so by itself.
 * Holds: mutex. */
static void note_file_durable(struct sync *sync, uint32_t number, bool in_log_only)
{
    struct commit_state *commit = &sync->commit;
    struct sync_file *file = &sync->files[number];
    KV_ASSERT(mutex_is_held(&sync->mutex) && (commit->log || !in_log_only));
    KV_ASSERT(commit->only_here >= file->in_log_only);
    KV_ASSERT(commit->only_here <= sync->context->datafiles);
    commit->only_here += in_log_only && !file->in_log_only;
    commit->only_here -= !in_log_only && file->in_log_only;
    file->in_log_only = in_log_only;
    if (commit->draining && commit->only_here == 0) {
        commit_log_restart(commit->log);
        commit->draining = false;
    }
}

/* Wakes those who wait for the file in `groups`, and calls the listener with what is durable. */
static void tell(struct sync *sync, uint32_t number, uint32_t groups, enum kv_status status)
{
    struct sync_file *file = &sync->files[number];
    uint64_t position = status == KV_OK ? atomic_load(&file->durable_position) : UINT64_MAX;
    eventcount_notify(&file->waiters, groups);
    kvstore_sync_listener listener = __atomic_load_n(&sync->listener, __ATOMIC_ACQUIRE);
    if (listener)
        listener(sync->listener_context, number, position, status);
}

/* Tells those who wait at other files that have become durable with the sync of one. Each thread
 * that finds one of the list tells it, whichever has put it there. */
static void tell_linked(struct sync *sync)
{
    for (uint32_t number; (number = links_take_to_tell(sync)) != LINKS_NO_FILE;)
        tell(sync, number, EVENTCOUNT_EVERY_GROUP, KV_OK);
}

static void publish(struct sync *sync, uint32_t number, uint64_t position, enum kv_status status,
                    bool in_log_only)
{
    struct sync_file *file = &sync->files[number];
    pthread_mutex_lock(&sync->mutex);
    KV_ASSERT(file->busy && !file->handed_over);
    if (status == KV_OK) {
        note_file_durable(sync, number, in_log_only);
        bool noted = position >= atomic_load(&sync->context->files[number].appended_bytes) ||
                     atomic_load(&file->written_since_ms) != 0;
        if (noted) /* else sync_cover took the time of what is not synced yet */
            file->covered_since_ms = 0;
    }
    uint32_t groups = EVENTCOUNT_EVERY_GROUP;
    if (status != KV_OK) {
        atomic_store(&file->failed, true);
    } else if (position > atomic_load(&file->synced_position)) {
        if (position == file->covered_position)
            groups = sync_group_of(file->started);
        atomic_store(&file->synced_position, position);
        file->syncs++;
    }
    if (status != KV_OK)
        links_note_failed(sync, number);
    while (status == KV_OK && links_note_synced(sync, number)) { /* others may want the mutex */
        pthread_mutex_unlock(&sync->mutex);
        pthread_mutex_lock(&sync->mutex);
    }
    bool others = sync->links.to_tell != LINKS_NO_FILE;
    pthread_mutex_unlock(&sync->mutex);
    tell(sync, number, groups, status);
    if (others)
        tell_linked(sync);
}

void sync_publish(struct sync *sync, uint32_t number, uint64_t position, enum kv_status status)
{
    publish(sync, number, position, status, false);
}

void sync_publish_logged(struct sync *sync, uint32_t number, uint64_t position)
{
    publish(sync, number, position, KV_OK, true);
}

void sync_give_up(struct sync *sync, uint32_t number, int error_number)
{
    const struct store_context *context = sync->context;
    lockset_write_lock(context->locks, number);
    context->files[number].read_only = true;
    verified_bitmap_distrust(&context->files[number].current->log.verified);
    generation_doubt(context->files[number].current);
    lockset_write_unlock(context->locks, number);

    pthread_mutex_lock(&sync->mutex);
    sync->files[number].failures++;
    pthread_mutex_unlock(&sync->mutex);
    log_error(
        "%s/%s: the sync of the file failed (%s): it takes no more writes; check the disk, then "
        "open the store again",
        context->dir, file_name(number, FILE_LOG).text, strerror(error_number));
    sync_publish(sync, number, UINT64_MAX, KV_NOT_DURABLE);
}
