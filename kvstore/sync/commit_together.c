#include "kvstore/sync/commit_together.h"

#include <errno.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/report/log.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/format/sizes.h"
#include "kvstore/sync/sync_slot.h"
#include "kvstore/sync/sync_state.h"

/* Files that one commit takes at most. */
#define GROUP_MAX_FILES 64u

/* A file that has more than this to sync is synced itself, instead of writing all of it twice. */
#define LOGGED_MAX_BYTES (UINT64_C(32) << 10)

struct commit_group {
    uint32_t count;
    uint32_t numbers[GROUP_MAX_FILES];
    bool logged[GROUP_MAX_FILES];
    struct sync_snapshot snapshots[GROUP_MAX_FILES];
};

/* Takes the slots of the files in the ready queue, except those that are to be synced themselves.
 * Holds: mutex. */
static void take_group(struct sync *sync, struct commit_group *group)
{
    KV_ASSERT(mutex_is_held(&sync->mutex));
    group->count = 0;
    for (uint32_t left = sync->ready.count; left > 0 && group->count < GROUP_MAX_FILES; left--) {
        uint32_t number = file_ring_pop(&sync->ready);
        struct sync_file *file = &sync->files[number];
        KV_ASSERT(file->queued);
        if (file->apart) {
            file_ring_push(&sync->ready, number);
            continue;
        }
        file->queued = false;
        if (file->busy) {
            file->again = true;
            continue;
        }
        file->busy = true;
        group->logged[group->count] = false;
        group->numbers[group->count++] = number;
    }
}

/* Makes the commit log at the first commit. False: there is none, which is no failure of a sync. */
static bool has_log(struct sync *sync)
{
    struct commit_state *commit = &sync->commit;
    const struct store_context *context = sync->context;
    if (commit->log)
        return true;
    struct commit_log *log = commit_log_create(context->dir_fd, context->seed);
    if (!log)
        log_warn("%s/" COMMIT_LOG_NAME ": cannot make the file (%s): each data file is synced by "
                 "itself, which takes longer",
                 context->dir, strerror(errno));
    pthread_mutex_lock(&sync->mutex);
    commit->log = log;
    commit->wanted = log != NULL;
    pthread_mutex_unlock(&sync->mutex);
    return log != NULL;
}

/* A log without room begins anew: at once, or, if some files' last writes are only in the log,
 * after a sync of each of these; then there is no room yet. */
static bool make_log_room(struct sync *sync)
{
    struct commit_state *commit = &sync->commit;
    if (commit_log_has_room(commit->log))
        return true;
    pthread_mutex_lock(&sync->mutex);
    commit->draining = commit->only_here > 0;
    if (!commit->draining)
        commit_log_restart(commit->log);
    uint32_t left = commit->only_here;
    for (uint32_t number = 0; left > 0 && number < sync->context->datafiles; number++) {
        struct sync_file *file = &sync->files[number];
        if (!file->in_log_only)
            continue;
        left--;
        file->apart = true;
        sync_enqueue(sync, number);
    }
    KV_ASSERT(left == 0);
    bool possible = !commit->draining;
    pthread_mutex_unlock(&sync->mutex);
    return possible;
}

/* False: the file is to be synced itself, also because the file must be as long on disk as it is
 * now before the log may know of its end, or because large values were written before it, or what
 * was taken back was erased behind it. Holds: the slot. */
static bool add_to_log(struct sync *sync, uint32_t number, const struct sync_snapshot *snapshot)
{
    const struct sync_file *file = &sync->files[number];
    const struct logfile *log = &snapshot->generation->log;
    uint64_t size = snapshot->position - atomic_load(&file->synced_position);
    bool has_grown =
        file->settled_salt != log->identity.salt || snapshot->tail > file->settled_bytes;
    bool has_extents = snapshot->extents_end > file->settled_tail;
    return !has_extents && snapshot->refused == 0 && !snapshot->failed && size > 0 &&
           size <= LOGGED_MAX_BYTES && !has_grown &&
           commit_log_add(sync->commit.log, log, snapshot->tail - size, size);
}

/* False: there is nothing to commit. Holds: the slots. */
static bool add_group_to_log(struct sync *sync, struct commit_group *group)
{
    bool any = false;
    for (uint32_t i = 0; i < group->count; i++) {
        group->snapshots[i] = sync_take_snapshot(sync, group->numbers[i]);
        sync_cover(sync, group->numbers[i]);
        group->logged[i] = add_to_log(sync, group->numbers[i], &group->snapshots[i]);
        any |= group->logged[i];
    }
    return any;
}

static void stop_using_log(struct sync *sync)
{
    pthread_mutex_lock(&sync->mutex);
    sync->commit.wanted = false;
    pthread_mutex_unlock(&sync->mutex);
}

/* Holds: the slots. */
static void commit_group(struct sync *sync, struct commit_group *group)
{
    if (!has_log(sync) || !make_log_room(sync) || !add_group_to_log(sync, group))
        return;
    if (commit_log_write(sync->commit.log) != 0) {
        log_warn("%s/" COMMIT_LOG_NAME ": cannot write to the file (%s): each data file is synced "
                 "by itself, which takes longer",
                 sync->context->dir, strerror(errno));
        stop_using_log(sync);
        /* Nothing has been promised yet: each file can be synced by itself. */
        memset(group->logged, 0, sizeof group->logged);
        return;
    }
    pthread_mutex_lock(&sync->mutex);
    for (uint32_t i = 0; i < group->count; i++)
        if (group->logged[i])
            sync_announce(&sync->files[group->numbers[i]], group->snapshots[i].position);
    pthread_mutex_unlock(&sync->mutex);
    int error_number = commit_log_sync(sync->commit.log) != 0 ? errno : 0;
    if (error_number != 0) {
        log_error("%s/" COMMIT_LOG_NAME ": the sync of the file failed (%s)", sync->context->dir,
                  strerror(error_number));
        stop_using_log(sync);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        if (!group->logged[i])
            continue;
        if (error_number != 0)
            sync_give_up(sync, group->numbers[i], error_number);
        else
            sync_publish_logged(sync, group->numbers[i], group->snapshots[i].position);
    }
}

/* Gives the slots back; a file that was not committed is to be synced by itself. */
static void release_group(struct sync *sync, const struct commit_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t number = group->numbers[i];
        if (!group->logged[i]) {
            pthread_mutex_lock(&sync->mutex);
            sync->files[number].apart = sync->files[number].again = true;
            pthread_mutex_unlock(&sync->mutex);
        }
        sync_release_slot(sync, number);
    }
}

bool commit_together(struct sync *sync)
{
    KV_ASSERT(mutex_is_held(&sync->mutex));
    if (!commit_is_possible(sync) || sync->commit.busy)
        return false;
    struct commit_group group;
    take_group(sync, &group);
    if (group.count == 0)
        return false;
    sync->commit.busy = true;
    pthread_mutex_unlock(&sync->mutex);
    commit_group(sync, &group);
    release_group(sync, &group);
    pthread_mutex_lock(&sync->mutex);
    sync->commit.busy = false;
    for (uint32_t i = 1; i < sync->ready.count; i++) /* this thread takes one */
        sync_wake_thread(sync);
    return true;
}
