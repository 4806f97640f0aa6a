#include "kvstore/maintenance/compact.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/numbers/random.h"
#include "kvstore/maintenance/compaction_queue.h"
#include "kvstore/maintenance/copylog.h"
#include "kvstore/maintenance/holds.h"
#include "kvstore/maintenance/old_logs.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/logtail.h"
#include "kvstore/table/bound.h"
#include "kvstore/table/disk_fit.h"
#include "kvstore/table/placing.h"
#include "kvstore/table/recovery.h"
#include "kvstore/format/sizes.h"
#include "kvstore/shared/shared_store.h"
#include "kvstore/sync/sync.h"
#include "kvstore/sync/sync_slot.h"
#include "kvstore/core/thread.h"

/* Between two steps the compactor sleeps as long as the step before took, so that it takes no more
 * than half of a CPU, but at least PAUSE_MIN_NS and at most PAUSE_MAX_NS (and what the kernel needs
 * to wake it): without a pause it would have a mutex back before a waiting thread is awake. Shorter
 * pauses cost writers more than the earlier end is worth. */
#define PAUSE_MIN_NS UINT64_C(5000)
#define PAUSE_MAX_NS UINT64_C(1000000)

/* How much later than asked for the kernel may wake the compactor; its default is 50 us. */
#define TIMER_SLACK_NS 1000

#define NS_PER_MS UINT64_C(1000000)

struct compactor {
    struct maintenance with;
    pthread_t thread;
    struct old_logs old_logs; /* used by the thread alone */
    atomic_bool is_asked;     /* somebody has asked for the errand */
};

/* Runs the errand if somebody has asked. The thread holds no lock, and a generation that is being
 * filled is between two steps. */
static void run_errand(struct compactor *compactor)
{
    if (atomic_exchange(&compactor->is_asked, false))
        compactor->with.errand(compactor->with.errand_argument);
}

/* One compaction ------------------------------------------------------------------------------- */

/* Creates the next generation's file, with room for all that is live now. */
static enum kv_status create_next(const struct store_context *context, struct datafile *file,
                                  struct generation **next, struct kv_error *error)
{
    lockset_read_lock(context->locks, file->number);
    struct file_identity identity = file->current->log.identity;
    uint64_t max_version = file->current->words->max_version;
    uint64_t room_bytes = file->current->words->live_bytes + file->current->words->reserve_bytes;
    bool read_only = datafile_is_read_only(file);
    lockset_read_unlock(context->locks, file->number);

    struct file_name name = file_name(file->number, FILE_LOG_NEW);
    if (read_only)
        return kv_error_set(error, KV_READ_ONLY, "%s/%s: the file takes no writes", context->dir,
                            file_name(file->number, FILE_LOG).text);
    identity.salt = random_secret();
    struct logfile log;
    enum kv_status status = logfile_create(&log, context->options.io, context->dir_fd, name.text,
                                           &identity, max_version, room_bytes, error);
    if (status != KV_OK)
        return recovery_explain(context->dir, status, error);
    (void)datafile_admit(context, log.fd); /* open has reported it if this is not possible */
    KV_ASSERT(file->current->words != datafile_next_words(file));
    status = generation_create(log, datafile_next_words(file), next);
    if (status == KV_OK && generation_begin_index(*next, context->arena) != KV_OK) {
        generation_free(*next);
        status = KV_NO_MEMORY;
    }
    if (status != KV_OK) {
        fileio->unlink_at(context->dir_fd, name.text);
        return kv_error_set(error, status, "%s/%s: no memory", context->dir, name.text);
    }
    return KV_OK;
}

static enum kv_status copy_generation(struct compactor *compactor, struct copylog *copy,
                                      struct kv_error *error)
{
    while (!copylog_is_done(copy)) {
        if (compaction_queue_is_stopped(compactor->with.compactions))
            return kv_error_set(error, KV_BUSY, "the store is being closed");
        run_errand(compactor);
        uint64_t began_ns = clock_monotonic_ns();
        enum kv_status status = copylog_step(copy);
        if (status == KV_CORRUPT)
            status =
                datafile_tell_damage(copy->with.context, copy->file, copy->at, kv_slice(NULL, 0));
        if (status != KV_OK)
            return kv_error_set(error, status, "%s/%s: compaction failed at offset %" PRIu64 ": %s",
                                copy->with.context->dir,
                                file_name(copy->file->number, FILE_LOG).text, copy->at,
                                kv_status_text(status));
        uint64_t step_ns = clock_monotonic_ns() - began_ns;
        struct timespec pause = {.tv_nsec =
                                     (long)at_most(at_least(step_ns, PAUSE_MIN_NS), PAUSE_MAX_NS)};
        nanosleep(&pause, NULL);
    }
    if (copylog_is_complete(copy))
        return KV_OK;
    return kv_error_set(
        error, KV_CORRUPT,
        "%s/%s: compaction failed: the log has no record for a key in the index: the "
        "record is damaged; stop the store, then kvcheck %s tells which",
        copy->with.context->dir, file_name(copy->file->number, FILE_LOG).text,
        copy->with.context->dir);
}

/* The next generation does not tell which of its records are of one transaction. So these must be
 * settled, and not only on disk, before it takes the place of the current one: recovery asks for
 * the parts of all transactions above that number. Those that come later are written to it as they
 * are. */
static enum kv_status settle_transactions(const struct maintenance *with, struct datafile *file,
                                          struct kv_error *error)
{
    const struct store_context *context = with->context;
    lockset_write_lock(context->locks, file->number);
    file->next_keeps_parts = true;
    uint64_t last = __atomic_load_n(&context->shared->last_transaction, __ATOMIC_RELAXED);
    datafile_pass_format(file);
    enum kv_status status = file->next_status;
    lockset_write_unlock(context->locks, file->number);
    if (status == KV_OK)
        status = sync_settle(with->sync, last);
    if (status == KV_OK)
        return KV_OK;
    return kv_error_set(
        error, status, "%s/%s: compaction failed: its transactions are not on disk: %s",
        context->dir, file_name(file->number, FILE_LOG).text, kv_status_text(status));
}

/* Syncs the next generation; *position is the file's position up to which it is durable then. */
static enum kv_status sync_next(const struct store_context *context, struct datafile *file,
                                uint64_t *position, struct kv_error *error)
{
    lockset_read_lock(context->locks, file->number);
    KV_ASSERT(file->next && file->copying);
    enum kv_status status = file->next_status;
    struct logfile *log = &file->next->log;
    uint64_t settled_end = placing_settled_end(file, file->next);
    uint64_t max_version = file->next->words->max_version;
    *position = atomic_load(&file->appended_bytes);
    lockset_read_unlock(context->locks, file->number);

    struct file_name name = file_name(file->number, FILE_LOG_NEW);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s/%s: compaction failed: %s", context->dir, name.text,
                            kv_status_text(status));
    if (logfile_sync(log) != 0)
        return kv_error_set_errno(error, "%s/%s: cannot sync the file", context->dir, name.text);
    log->progress.settled = __atomic_load_n(&context->shared->settled, __ATOMIC_RELAXED);
    if (logfile_note_progress(log, settled_end, max_version) != 0)
        return kv_error_set_errno(error, "%s/%s: cannot write the header", context->dir, name.text);
    return KV_OK;
}

/* Puts the next generation in the place of the current one, which is given back in *old. Holds: the
 * sync slot. */
static enum kv_status swap_generations(const struct maintenance *with, struct datafile *file,
                                       struct generation **old, struct kv_error *error)
{
    const struct store_context *context = with->context;
    struct file_name new_name = file_name(file->number, FILE_LOG_NEW);
    struct file_name name = file_name(file->number, FILE_LOG);
    lockset_write_lock(context->locks, file->number);
    KV_ASSERT(file->next && file->copying);
    /* Zeros may have been copied where the old log has lost bytes. */
    enum kv_status status = datafile_is_read_only(file) ? KV_READ_ONLY : file->next_status;
    if (status == KV_OK && logfile_is_broken(&file->next->log))
        status = KV_IO;
    if (status != KV_OK)
        kv_error_set(error, status, "%s/%s: compaction failed: %s", context->dir, name.text,
                     kv_status_text(status));
    else if (past_logs_replace(with->past, file) != 0)
        status = kv_error_set_errno(error, "%s/%s: cannot rename %s to it", context->dir, name.text,
                                    new_name.text);
    if (status == KV_OK) {
        KV_ASSERT(index_count(file->next->index) >= index_count(file->current->index));
        /* A transaction that failed meanwhile may have drawn versions, and written nothing. */
        uint64_t max_version = file->current->words->max_version;
        file->next->words->max_version = at_least(file->next->words->max_version, max_version);
        *old = file->current;
        file->next->reserve = file->current->reserve;
        generation_note_copying(file->next, false);
        file->next->fixed_end = FILE_HEADER_BYTES; /* no backup has any of it */
        file->next->promised_version = file->next->words->max_version;
        datafile_set_current(context, file, file->next);
        file->next = NULL;
        file->next_keeps_parts = false;
        file->copying = false;
        bound_update_sum(&file->share, file->current->words->live_bytes);
        /* The sync of the timer, or one that was asked for, may just have become unnecessary: the
         * next write arms a new one. */
        file->sync_timer_armed = false;
        for (unsigned i = 0; i < DATAFILE_DAMAGED_MAX; i++) /* the damage of the old log is gone */
            atomic_store(&file->damaged_at[i], 0);
        file->compactions++;
    }
    lockset_write_unlock(context->locks, file->number);
    return status;
}

/* Syncs the next generation, swaps it in and syncs its name. Holds: the sync slot, so that no write
 * is acknowledged as durable between the last sync of the new file and that of its name. */
static enum kv_status replace_generation(const struct maintenance *with, struct datafile *file,
                                         struct generation **old, struct kv_error *error)
{
    uint64_t position;
    enum kv_status status = sync_next(with->context, file, &position, error);
    sync_cover(with->sync, file->number);
    if (status == KV_OK)
        status = swap_generations(with, file, old, error);
    if (status != KV_OK)
        return status;
    if (fileio->sync_dir(with->context->dir_fd) != 0) {
        status = kv_error_set_errno(error, "%s: cannot sync the directory", with->context->dir);
        sync_give_up(with->sync, file->number, errno);
        past_logs_keep(with->past, file->number, (*old)->log.stream);
        return status;
    }
    sync_publish(with->sync, file->number, position, KV_OK);
    return KV_OK;
}

static enum kv_status copy_complete(struct compactor *compactor, struct datafile *file,
                                    struct kv_error *error)
{
    const struct maintenance *with = &compactor->with;
    struct generation *old = NULL;
    uint64_t position;
    enum kv_status status = settle_transactions(with, file, error);
    /* Most of the data is written here, so that the slot is held for a short time only. */
    if (status == KV_OK)
        status = sync_next(with->context, file, &position, error);
    if (status == KV_OK) {
        sync_take_slot(with->sync, file->number);
        status = replace_generation(with, file, &old, error);
        sync_release_slot(with->sync, file->number);
    }
    if (old)
        placing_wait(with->context, file, old);
    if (old && with->context->lockless)
        with->context->lockless->wait(with->context->readers);
    /* After a failure the old log may still have its name on disk. */
    if (status == KV_OK && arena_is_shared(with->context->arena))
        old_logs_add(&compactor->old_logs, &old->log);
    generation_free(old);
    return status;
}

/* Gives up the next generation, unless it has become the current one. */
static void abandon_next(const struct store_context *context, struct datafile *file,
                         struct generation *next)
{
    lockset_write_lock(context->locks, file->number);
    bool in_use = file->current == next;
    file->next = NULL;
    file->next_keeps_parts = false;
    file->copying = false;
    generation_note_copying(file->current, false);
    lockset_write_unlock(context->locks, file->number);
    if (in_use)
        return;
    placing_wait(context, file, next);
    fileio->unlink_at(context->dir_fd, file_name(file->number, FILE_LOG_NEW).text);
    generation_free(next);
}

/* Compacts data file `number`. `bound`, if not NULL, has had writes leave room for the copy; from
 * here on the copy uses that room. */
static enum kv_status compact_file(struct compactor *compactor, uint32_t number,
                                   struct bound *bound, struct kv_error *error)
{
    const struct store_context *context = compactor->with.context;
    struct datafile *file = &context->files[number];
    struct generation *next = NULL;
    enum kv_status status = create_next(context, file, &next, error);
    if (status != KV_OK)
        return status;
    lockset_write_lock(context->locks, number);
    file->copying = true;
    generation_note_copying(file->current, true);
    if (bound)
        atomic_store(&bound->reserve.in_use, true);
    lockset_write_unlock(context->locks, number);
    struct copylog copy;
    copylog_start(&copy, &compactor->with, file, next);
    status = copy_generation(compactor, &copy, error);
    if (status == KV_OK)
        status = copy_complete(compactor, file, error);
    if (status == KV_OK)
        copylog_tell_carried(&copy);
    if (status != KV_OK)
        abandon_next(context, file, next);
    return status;
}

/* The thread ----------------------------------------------------------------------------------- */

/* Keeps writers from asking for a compaction of the file. True: they had asked for this one. */
static bool hush_writers(const struct store_context *context, struct datafile *file)
{
    lockset_write_lock(context->locks, file->number);
    bool wanted = file->compaction_wanted;
    file->compaction_wanted = true;
    lockset_write_unlock(context->locks, file->number);
    return wanted;
}

static void note_result(struct compactor *compactor, uint32_t number, enum kv_status status,
                        uint64_t took_ns, bool writers_wanted)
{
    struct compaction_queue *queue = compactor->with.compactions;
    const struct store_context *context = compactor->with.context;
    struct datafile *file = &context->files[number];
    compaction_queue_finish(queue, number, status, took_ns);

    /* From here on writers may ask for the next compaction. */
    lockset_write_lock(context->locks, number);
    file->compaction_failures += status != KV_OK;
    file->compaction_failing = status != KV_OK;
    bool retry = status != KV_OK && writers_wanted && !datafile_is_read_only(file);
    if (!retry)
        file->compaction_wanted = false;
    lockset_write_unlock(context->locks, number);
    if (retry)
        compaction_queue_want(queue, number);
}

/* The store's bound, if entries can be evicted; else NULL. */
static struct bound *bound_with_eviction(const struct store_context *context, uint32_t number)
{
    lockset_read_lock(context->locks, number);
    struct bound *bound = context->files[number].share.bound;
    lockset_read_unlock(context->locks, number);
    return bound && bound->evict != KVSTORE_EVICT_NONE ? bound : NULL;
}

/* Frees the disk blocks that replaced logs still have, and waits until that is possible. False:
 * they have none, or somebody reads them. */
static bool free_replaced(struct compactor *compactor)
{
    struct old_logs *old_logs = &compactor->old_logs;
    unsigned before = old_logs->count;
    if (before == 0 || holds_any(old_logs->holds))
        return false;
    for (uint64_t now_ns; (now_ns = clock_monotonic_ns()) < old_logs_last_due_ns(old_logs);)
        clock_sleep_ms((old_logs_last_due_ns(old_logs) - now_ns) / NS_PER_MS + 1);
    old_logs_clear(old_logs);
    return old_logs->count < before;
}

/* Gives back what a file in which nothing lives has allocated after its tail. False: nothing. */
static bool give_room(const struct store_context *context, uint32_t number)
{
    struct datafile *file = &context->files[number];
    lockset_write_lock(context->locks, number);
    KV_ASSERT(!file->copying);
    struct generation *current = file->current;
    bool gave = !datafile_is_read_only(file) && current->words->live_bytes == 0 &&
                logtail_give_room(&current->log, current->words->reserve_bytes);
    lockset_write_unlock(context->locks, number);
    return gave;
}

/* Compacts the file. If entries can be evicted, writes have left room for the copy, and the blocks
 * of the replaced log are given back at once. */
static enum kv_status compact_in_reserve(struct compactor *compactor, uint32_t number,
                                         struct kv_error *error)
{
    const struct store_context *context = compactor->with.context;
    struct bound *bound = bound_with_eviction(context, number);
    enum kv_status status = compact_file(compactor, number, bound, error);
    if (status == KV_NO_SPACE) {
        bool freed = free_replaced(compactor);
        if (give_room(context, number) || freed)
            status = compact_file(compactor, number, bound, error);
    }
    if (bound) {
        free_replaced(compactor);
        atomic_store(&bound->reserve.in_use, false);
        disk_fit_bound(bound, context);
    }
    return status;
}

/* Runs one compaction and notes its result. */
static enum kv_status run_compaction(struct compactor *compactor, uint32_t number,
                                     struct kv_error *error)
{
    const struct store_context *context = compactor->with.context;
    bool writers_wanted = hush_writers(context, &context->files[number]);
    uint64_t started_ns = clock_monotonic_ns();
    enum kv_status status = compact_in_reserve(compactor, number, error);
    note_result(compactor, number, status, clock_monotonic_ns() - started_ns, writers_wanted);
    if (status != KV_OK && !compaction_queue_is_stopped(compactor->with.compactions))
        log_warn("compaction failed, the data file stays as it is: %s", error->text);
    return status;
}

/* Returns when the thread has something else to do. */
static uint64_t next_due_ns(struct compactor *compactor)
{
    return at_most(old_logs_due_ns(&compactor->old_logs), past_logs_due_ns(compactor->with.past));
}

static void *compactor_thread(void *argument)
{
    struct compactor *compactor = argument;
    struct compaction_queue *queue = compactor->with.compactions;
    struct compaction next;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    while (compaction_queue_next(queue, next_due_ns(compactor), &next)) {
        run_errand(compactor);
        past_logs_clear(compactor->with.past, &compactor->old_logs);
        old_logs_clear(&compactor->old_logs);
        if (next.is_none)
            continue;
        struct kv_error error = {0};
        enum kv_status status = run_compaction(compactor, next.number, &error);
        if (next.request)
            compaction_queue_answer(queue, next.request, status, &error);
    }
    old_logs_clear_all(&compactor->old_logs);
    return NULL;
}

enum kv_status compactor_create(const struct maintenance *with, struct compactor **compactor,
                                struct kv_error *error)
{
    struct compactor *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", with->context->dir);
    created->with = *with;
    created->old_logs.holds = with->holds;
    int result = thread_start(&created->thread, "kv-compact", compactor_thread, created);
    if (result != 0) {
        free(created);
        return kv_error_set_no_thread(error, result, "%s: cannot start the compaction thread",
                                      with->context->dir);
    }
    *compactor = created;
    return KV_OK;
}

void compactor_ask(struct compactor *compactor)
{
    atomic_store(&compactor->is_asked, true);
    compaction_queue_wake(compactor->with.compactions);
}

void compactor_free(struct compactor *compactor)
{
    if (!compactor)
        return;
    compaction_queue_stop(compactor->with.compactions);
    pthread_join(compactor->thread, NULL);
    free(compactor);
}
