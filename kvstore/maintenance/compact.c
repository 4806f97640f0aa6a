#include "kvstore/maintenance/compact.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/random.h"
#include "kvstore/maintenance/copylog.h"
#include "kvstore/log/fileio.h"
#include "kvstore/core/readers.h"
#include "kvstore/table/recovery.h"
#include "kvstore/format/sizes.h"
#include "kvstore/sync/sync.h"
#include "kvstore/core/thread.h"

/* Between two steps the compactor sleeps as long as the one before took, so that it takes no more
 * than half of a CPU, and so long at least and at most (and what the kernel needs to wake it): under
 * a mutex it would else have the lock back before a waiting thread is awake. Shorter pauses cost
 * writers more than the earlier end is worth. */
#define PAUSE_MIN_NS UINT64_C(5000)
#define PAUSE_MAX_NS UINT64_C(1000000)

/* How much later than asked for the kernel may wake the compactor; its default is 50 us. */
#define TIMER_SLACK_NS 1000

/* How long a file is left alone after a compaction: so many times what it took, or so long. */
#define REST_FACTOR 3u
#define REST_MIN_MS UINT64_C(1000)

/* The same after a failure: 10 s, doubled with each further one up to 11 minutes. */
#define RETRY_FIRST_MS      UINT64_C(10000)
#define RETRY_MAX_DOUBLINGS 6u

/* How often all files are looked at for room, at most. */
#define ROOM_EVERY_MS UINT64_C(1000)

#define NS_PER_MS UINT64_C(1000000)

/* What the compactor is to do with one data file. Covered by compactor.mutex. */
struct task {
    bool wanted;
    uint32_t failures_in_a_row;
    uint64_t not_before_ns;
};

/* A kvstore_compact call that waits, on its caller's stack. Covered by compactor.mutex. */
struct request {
    uint32_t number;
    bool done;
    enum kv_status status;
    struct kv_error *error;
    struct request *next;
};

struct compactor {
    struct kvstore *store;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_cond_t request_done;
    bool stop;
    uint32_t wanted_count;
    uint32_t next_number; /* files take turns */
    bool room_wanted;
    uint64_t room_not_before_ns;
    struct task *tasks;
    struct request *requests; /* first in, first out */
};

/* One compaction ------------------------------------------------------------------------------- */

static bool must_stop(struct compactor *compactor)
{
    pthread_mutex_lock(&compactor->mutex);
    bool stop = compactor->stop;
    pthread_mutex_unlock(&compactor->mutex);
    return stop;
}

static void pause_for_others(uint64_t step_ns)
{
    struct timespec pause = {.tv_nsec =
                                 (long)at_most(at_least(step_ns, PAUSE_MIN_NS), PAUSE_MAX_NS)};
    nanosleep(&pause, NULL);
}

/* Creates the next generation's file, with room for all that is live now. */
static enum kv_status create_next(struct kvstore *store, struct datafile *file,
                                  struct generation **next, struct kv_error *error)
{
    lockset_read_lock(store->locks, file->number);
    struct file_identity identity = file->current->log.identity;
    uint64_t room_bytes = file->current->live_bytes + file->current->reserve_bytes;
    bool read_only = datafile_is_read_only(file);
    lockset_read_unlock(store->locks, file->number);

    struct file_name name = file_name(file->number, FILE_LOG_NEW);
    if (read_only)
        return kv_error_set(error, KV_READ_ONLY, "%s/%s: the file takes no writes", store->dir,
                            file_name(file->number, FILE_LOG).text);
    identity.salt = random_secret();
    struct logfile log;
    enum kv_status status = logfile_create(&log, store->options.io, store->dir_fd, name.text,
                                           &identity, 0, room_bytes, error);
    if (status != KV_OK)
        return recovery_explain(store->dir, status, error);
    status = generation_create(log, next);
    if (status != KV_OK) {
        fileio->unlink_at(store->dir_fd, name.text);
        return kv_error_set(error, status, "%s/%s: no memory", store->dir, name.text);
    }
    return KV_OK;
}

static enum kv_status copy_all(struct compactor *compactor, struct copylog *copy,
                               struct kv_error *error)
{
    while (!copylog_is_done(copy)) {
        if (must_stop(compactor))
            return kv_error_set(error, KV_BUSY, "the store is being closed");
        uint64_t began_ns = clock_monotonic_ns();
        enum kv_status status = copylog_step(copy);
        if (status != KV_OK)
            return kv_error_set(error, status, "%s/%s: compaction failed at offset %" PRIu64 ": %s",
                                copy->store->dir, file_name(copy->file->number, FILE_LOG).text,
                                copy->at, kv_status_text(status));
        pause_for_others(clock_monotonic_ns() - began_ns);
    }
    if (copylog_is_complete(copy))
        return KV_OK;
    return kv_error_set(error, KV_CORRUPT,
                        "%s/%s: compaction failed: a key of the index was not met in the log, so a "
                        "record is damaged; stop the store, then kvcheck %s tells which",
                        copy->store->dir, file_name(copy->file->number, FILE_LOG).text,
                        copy->store->dir);
}

/* Syncs the next generation; *position is what is durable in it then. */
static enum kv_status sync_next(struct kvstore *store, struct datafile *file, uint64_t *position,
                                struct kv_error *error)
{
    lockset_read_lock(store->locks, file->number);
    enum kv_status status = file->next_status;
    struct logfile *log = &file->next->log;
    uint64_t tail = log->tail;
    uint64_t max_version = file->next->max_version;
    *position = atomic_load(&file->appended_bytes);
    lockset_read_unlock(store->locks, file->number);

    struct file_name name = file_name(file->number, FILE_LOG_NEW);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s/%s: compaction failed: %s", store->dir, name.text,
                            kv_status_text(status));
    if (logfile_sync(log) != 0)
        return kv_error_set_errno(error, "%s/%s: can not sync the file", store->dir, name.text);
    if (logfile_note_progress(log, tail, max_version) != 0)
        return kv_error_set_errno(error, "%s/%s: can not write the header", store->dir, name.text);
    return KV_OK;
}

/* Puts the next generation in the place of the current one, which is given back in *old. Holds: the
 * sync slot. */
static enum kv_status swap(struct kvstore *store, struct datafile *file, struct generation **old,
                           struct kv_error *error)
{
    struct file_name new_name = file_name(file->number, FILE_LOG_NEW);
    struct file_name name = file_name(file->number, FILE_LOG);
    lockset_write_lock(store->locks, file->number);
    /* Zeros may have been copied for what the old log has lost. */
    enum kv_status status = datafile_is_read_only(file) ? KV_READ_ONLY : file->next_status;
    if (status == KV_OK && logfile_is_broken(&file->next->log))
        status = KV_IO;
    if (status != KV_OK)
        kv_error_set(error, status, "%s/%s: compaction failed: %s", store->dir, name.text,
                     kv_status_text(status));
    else if (fileio->rename_at(store->dir_fd, new_name.text, name.text) != 0)
        status = kv_error_set_errno(error, "%s/%s: can not rename %s to it", store->dir, name.text,
                                    new_name.text);
    if (status == KV_OK) {
        *old = file->current;
        datafile_set_current(store, file, file->next);
        file->next = NULL;
        file->sync_timer_armed = false; /* its sync, or one that was asked for, may just have been
                                           made unnecessary: the next write arms a new one */
        file->compactions++;
    }
    lockset_write_unlock(store->locks, file->number);
    return status;
}

/* Holds: the sync slot: no write is acknowledged as durable between the last sync of the new file
 * and that of its name. */
static enum kv_status replace(struct kvstore *store, struct datafile *file, struct generation **old,
                              struct kv_error *error)
{
    uint64_t position;
    enum kv_status status = sync_next(store, file, &position, error);
    if (status == KV_OK)
        status = swap(store, file, old, error);
    if (status != KV_OK)
        return status;
    if (fileio->sync_dir(store->dir_fd) != 0) {
        status = kv_error_set_errno(error, "%s: can not sync the directory", store->dir);
        sync_give_up(store->sync, file->number, errno);
        return status;
    }
    sync_publish(store->sync, file->number, position, KV_OK);
    return KV_OK;
}

static enum kv_status complete(struct kvstore *store, struct datafile *file, struct kv_error *error)
{
    struct generation *old = NULL;
    uint64_t position;
    /* Most of the data is written here, so that the slot is held for a short time only. */
    enum kv_status status = sync_next(store, file, &position, error);
    if (status == KV_OK) {
        sync_take_slot(store->sync, file->number);
        status = replace(store, file, &old, error);
        sync_release_slot(store->sync, file->number);
    }
    if (old && store->readers)
        readers_wait(store->readers);
    generation_free(old);
    return status;
}

/* Gives up the next generation, unless it has become the current one. */
static void abandon(struct kvstore *store, struct datafile *file, struct generation *next)
{
    lockset_write_lock(store->locks, file->number);
    bool in_use = file->current == next;
    file->next = NULL;
    lockset_write_unlock(store->locks, file->number);
    if (in_use)
        return;
    fileio->unlink_at(store->dir_fd, file_name(file->number, FILE_LOG_NEW).text);
    generation_free(next);
}

static enum kv_status compact(struct compactor *compactor, uint32_t number, struct kv_error *error)
{
    struct kvstore *store = compactor->store;
    struct datafile *file = &store->files[number];
    struct generation *next = NULL;
    enum kv_status status = create_next(store, file, &next, error);
    if (status != KV_OK)
        return status;
    struct copylog copy;
    copylog_start(&copy, store, file, next);
    status = copy_all(compactor, &copy, error);
    if (status == KV_OK)
        status = complete(store, file, error);
    if (status != KV_OK)
        abandon(store, file, next);
    return status;
}

/* The thread ----------------------------------------------------------------------------------- */

/* Holds: mutex. */
static void set_wanted(struct compactor *compactor, uint32_t number, bool wanted)
{
    compactor->wanted_count += wanted && !compactor->tasks[number].wanted;
    compactor->wanted_count -= !wanted && compactor->tasks[number].wanted;
    compactor->tasks[number].wanted = wanted;
}

/* When the file may be compacted next. After a success: not so soon that compaction could take more
 * than a small share of the time, however fast the file is overwritten. */
static uint64_t rest_ns(struct task *task, enum kv_status status, uint64_t took_ns)
{
    if (status == KV_OK) {
        task->failures_in_a_row = 0;
        return at_least(took_ns * REST_FACTOR, REST_MIN_MS * NS_PER_MS);
    }
    uint64_t wait_ms = RETRY_FIRST_MS << task->failures_in_a_row;
    if (task->failures_in_a_row < RETRY_MAX_DOUBLINGS)
        task->failures_in_a_row++;
    return wait_ms * NS_PER_MS;
}

static void note_result(struct compactor *compactor, uint32_t number, enum kv_status status,
                        uint64_t took_ns)
{
    struct datafile *file = &compactor->store->files[number];
    struct task *task = &compactor->tasks[number];
    pthread_mutex_lock(&compactor->mutex);
    task->not_before_ns = clock_monotonic_ns() + rest_ns(task, status, took_ns);
    set_wanted(compactor, number, false);
    pthread_mutex_unlock(&compactor->mutex);

    /* From here on writers may want the next one. */
    lockset_write_lock(compactor->store->locks, number);
    file->compaction_failures += status != KV_OK;
    if (status == KV_OK)
        file->compaction_wanted = false;
    bool retry = status != KV_OK && file->compaction_wanted && !file->read_only;
    lockset_write_unlock(compactor->store->locks, number);
    if (retry)
        compactor_want(compactor, number);
}

/* Runs one compaction and notes what came of it. Holds: mutex, released meanwhile. */
static enum kv_status run(struct compactor *compactor, uint32_t number, struct kv_error *error)
{
    pthread_mutex_unlock(&compactor->mutex);
    *error = (struct kv_error){0};
    uint64_t started_ns = clock_monotonic_ns();
    enum kv_status status = compact(compactor, number, error);
    note_result(compactor, number, status, clock_monotonic_ns() - started_ns);
    if (status != KV_OK && !must_stop(compactor))
        log_warn("compaction failed, the data file stays as it is: %s", error->text);
    pthread_mutex_lock(&compactor->mutex);
    return status;
}

/* Holds: mutex. */
static void serve_request(struct compactor *compactor)
{
    struct request *request = compactor->requests;
    compactor->requests = request->next;
    struct kv_error error = {0};
    request->status = compactor->stop ? kv_error_set(&error, KV_BUSY, "the store is being closed")
                                      : run(compactor, request->number, &error);
    if (request->error)
        *request->error = error;
    request->done = true;
    pthread_cond_broadcast(&compactor->request_done);
}

/* The next file in turn whose time has come, or D; *wake_ns: when the first of the others is due,
 * UINT64_MAX if none is wanted. Holds: mutex. */
static uint32_t next_wanted(const struct compactor *compactor, uint64_t *wake_ns)
{
    uint32_t datafiles = compactor->store->datafiles;
    uint64_t now_ns = clock_monotonic_ns();
    *wake_ns = UINT64_MAX;
    for (uint32_t i = 0; compactor->wanted_count > 0 && i < datafiles; i++) {
        uint32_t number = (compactor->next_number + i) % datafiles;
        const struct task *task = &compactor->tasks[number];
        if (!task->wanted)
            continue;
        if (task->not_before_ns <= now_ns)
            return number;
        if (task->not_before_ns < *wake_ns)
            *wake_ns = task->not_before_ns;
    }
    return datafiles;
}

/* Finds files that are worth compacting for want of room. Holds: mutex, released meanwhile. */
static void look_for_room(struct compactor *compactor)
{
    struct kvstore *store = compactor->store;
    compactor->room_wanted = false;
    compactor->room_not_before_ns = clock_monotonic_ns() + ROOM_EVERY_MS * NS_PER_MS;
    pthread_mutex_unlock(&compactor->mutex);
    for (uint32_t number = 0; number < store->datafiles; number++) {
        lockset_write_lock(store->locks, number);
        datafile_consider_compaction(store, &store->files[number], true);
        lockset_write_unlock(store->locks, number);
    }
    pthread_mutex_lock(&compactor->mutex);
}

/* Holds: mutex. */
static void run_wanted_or_wait(struct compactor *compactor)
{
    uint64_t wake_ns;
    struct kv_error error;
    if (compactor->room_wanted && compactor->room_not_before_ns <= clock_monotonic_ns()) {
        look_for_room(compactor);
        return;
    }
    uint32_t number = next_wanted(compactor, &wake_ns);
    if (number < compactor->store->datafiles) {
        compactor->next_number = number + 1;
        run(compactor, number, &error);
        return;
    }
    if (compactor->room_wanted && compactor->room_not_before_ns < wake_ns)
        wake_ns = compactor->room_not_before_ns;
    if (wake_ns < UINT64_MAX) {
        thread_wait_until(&compactor->work, &compactor->mutex, wake_ns);
    } else {
        pthread_cond_wait(&compactor->work, &compactor->mutex);
    }
}

static void *compactor_thread(void *argument)
{
    struct compactor *compactor = argument;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    pthread_mutex_lock(&compactor->mutex);
    while (compactor->requests || !compactor->stop) {
        if (compactor->requests)
            serve_request(compactor);
        else
            run_wanted_or_wait(compactor);
    }
    pthread_mutex_unlock(&compactor->mutex);
    return NULL;
}

static void deallocate(struct compactor *compactor)
{
    pthread_cond_destroy(&compactor->work);
    pthread_cond_destroy(&compactor->request_done);
    pthread_mutex_destroy(&compactor->mutex);
    free(compactor->tasks);
    free(compactor);
}

enum kv_status compactor_create(struct kvstore *store, struct compactor **compactor,
                                struct kv_error *error)
{
    struct compactor *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", store->dir);
    created->store = store;
    created->tasks = calloc(store->datafiles, sizeof *created->tasks);
    pthread_mutex_init(&created->mutex, NULL);
    thread_condition_init(&created->work);
    pthread_cond_init(&created->request_done, NULL);
    int result = created->tasks
                     ? thread_start(&created->thread, "kv-compact", compactor_thread, created)
                     : ENOMEM;
    if (result != 0) {
        deallocate(created);
        return kv_error_set_no_thread(error, result, "%s: can not start the compaction thread",
                                      store->dir);
    }
    *compactor = created;
    return KV_OK;
}

void compactor_free(struct compactor *compactor)
{
    if (!compactor)
        return;
    pthread_mutex_lock(&compactor->mutex);
    compactor->stop = true;
    pthread_cond_signal(&compactor->work);
    pthread_mutex_unlock(&compactor->mutex);
    pthread_join(compactor->thread, NULL);
    deallocate(compactor);
}

void compactor_want(struct compactor *compactor, uint32_t number)
{
    pthread_mutex_lock(&compactor->mutex);
    set_wanted(compactor, number, true);
    pthread_cond_signal(&compactor->work);
    pthread_mutex_unlock(&compactor->mutex);
}

void compactor_want_room(struct compactor *compactor)
{
    pthread_mutex_lock(&compactor->mutex);
    if (!compactor->room_wanted)
        pthread_cond_signal(&compactor->work);
    compactor->room_wanted = true;
    pthread_mutex_unlock(&compactor->mutex);
}

enum kv_status kvstore_compact(struct kvstore *store, uint32_t number, struct kv_error *error)
{
    struct compactor *compactor = store->compactor;
    if (number >= store->datafiles)
        return kv_error_set(error, KV_USAGE, "there is no data file %u; the store has %u", number,
                            store->datafiles);
    if (!compactor)
        return kv_error_set(error, KV_READ_ONLY, "%s: the store is open read-only", store->dir);

    struct request request = {.number = number, .error = error};
    pthread_mutex_lock(&compactor->mutex);
    struct request **last = &compactor->requests;
    while (*last)
        last = &(*last)->next;
    *last = &request;
    pthread_cond_signal(&compactor->work);
    while (!request.done)
        pthread_cond_wait(&compactor->request_done, &compactor->mutex);
    pthread_mutex_unlock(&compactor->mutex);
    return request.status;
}
