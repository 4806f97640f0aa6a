#include "kvstore/api/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/numbers/random.h"
#include "common/memory/reserved.h"
#include "kvstore/cache/cache.h"
#include "kvstore/maintenance/compact.h"
#include "kvstore/maintenance/compaction_queue.h"
#include "kvstore/maintenance/holds.h"
#include "kvstore/maintenance/order_filler.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/log/commit_replay.h"
#include "kvstore/log/fileio.h"
#include "kvstore/api/evict.h"
#include "kvstore/api/quotas.h"
#include "kvstore/api/lockfile.h"
#include "kvstore/api/store_create.h"
#include "kvstore/maintenance/sweep.h"
#include "kvstore/sync/links.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/ordering.h"
#include "kvstore/table/recovery.h"
#include "kvstore/table/whole_transactions.h"
#include "kvstore/core/thread.h"

#define DEFAULT_SYNC_INTERVAL_MS     1000u
#define DEFAULT_SWEEP_INTERVAL_MS    1000u
#define DEFAULT_COMPACT_DEAD_PERCENT 50u
#define DEFAULT_COMPACT_MIN_BYTES    (UINT64_C(4) << 20)
#define DEFAULT_KEEP_CHANGES_BYTES   (UINT64_C(1) << 30)

/* Options -------------------------------------------------------------------------------------- */

const char *kvstore_version(void)
{
    return MQKV_VERSION_STRING;
}

const char *kvstore_io_name(enum kvstore_io io)
{
    static const char *const names[KVSTORE_IO_COUNT] = {
        [KVSTORE_IO_MMAP] = "mmap", [KVSTORE_IO_PREAD] = "pread", [KVSTORE_IO_DIRECT] = "direct"};
    return (unsigned)io < KVSTORE_IO_COUNT ? names[io] : NULL;
}

/* The end of the sentence about a choice without a name; count: of those that this header has. */
static const char *explain_absence(unsigned choice, unsigned count)
{
    return choice < count ? ": this library was built without it (make LAB=no)" : "";
}

static enum kv_status check_store_options(const struct kvstore_options *options,
                                          struct kv_error *error)
{
    if (!RESERVED_IS_CLEAR(options->reserved))
        return kv_error_set(error, KV_UNSUPPORTED, RESERVED_ADVICE);
    if (options->datafiles > KVSTORE_MAX_DATAFILES)
        return kv_error_set(error, KV_USAGE, "%u data files: a store can have 1 to %u",
                            options->datafiles, KVSTORE_MAX_DATAFILES);
    if (options->max_value_bytes > KVSTORE_MAX_VALUE_BYTES)
        return kv_error_set(error, KV_USAGE, "max_value_bytes %u: the most is %u",
                            options->max_value_bytes, KVSTORE_MAX_VALUE_BYTES);
    if (options->ordered && options->read_only)
        return kv_error_set(error, KV_USAGE, "a store that is open read-only cannot be ordered");
    if (options->compact_dead_percent > 100)
        return kv_error_set(error, KV_USAGE, "compact_dead_percent %u: the most is 100",
                            options->compact_dead_percent);
    if (!kvstore_locking_name(options->locking))
        return kv_error_set(error, KV_USAGE, "unknown locking strategy %u%s",
                            (unsigned)options->locking,
                            explain_absence(options->locking, KVSTORE_LOCKING_COUNT));
    if (!kvstore_rwlock_name(options->rwlock))
        return kv_error_set(error, KV_USAGE, "unknown preference of reader-writer locks %u%s",
                            (unsigned)options->rwlock,
                            explain_absence(options->rwlock, KVSTORE_RWLOCK_COUNT));
    if (options->rwlock != KVSTORE_PREFER_WRITER && !kvstore_locking_has_rwlocks(options->locking))
        return kv_error_set(error, KV_USAGE, "%s: the locks of %s are mutexes and prefer nobody",
                            kvstore_rwlock_name(options->rwlock),
                            kvstore_locking_name(options->locking));
    if (options->cache_bytes != 0 && options->cache_bytes < KVSTORE_MIN_CACHE_BYTES)
        return kv_error_set(error, KV_USAGE,
                            "cache_bytes %" PRIu64 ": the least is %" PRIu64 ", or 0 for no cache",
                            options->cache_bytes, KVSTORE_MIN_CACHE_BYTES);
    if (!kvstore_allocator_name(options->allocator))
        return kv_error_set(error, KV_USAGE, "unknown allocator %u%s", (unsigned)options->allocator,
                            explain_absence(options->allocator, KVSTORE_ALLOCATOR_COUNT));
    if (!kvstore_io_name(options->io))
        return kv_error_set(error, KV_USAGE, "unknown way of reading files %u",
                            (unsigned)options->io);
    if (!kvstore_direct_name(options->direct))
        return kv_error_set(error, KV_USAGE, "unknown way of direct reads %u",
                            (unsigned)options->direct);
    if ((unsigned)options->durability > KVSTORE_SYNC_ALWAYS)
        return kv_error_set(error, KV_USAGE, "unknown durability %u",
                            (unsigned)options->durability);
    if (!kvstore_evict_name(options->evict))
        return kv_error_set(error, KV_USAGE, "unknown way of eviction %u",
                            (unsigned)options->evict);
    if (options->max_bytes != 0 && options->max_bytes < KVSTORE_MIN_BOUND_BYTES)
        return kv_error_set(error, KV_USAGE,
                            "max_bytes %" PRIu64 ": the least is %" PRIu64 ", or 0 for no bound",
                            options->max_bytes, KVSTORE_MIN_BOUND_BYTES);
    if (options->quota_count > KVSTORE_MAX_QUOTAS)
        return kv_error_set(error, KV_USAGE, "%u quotas: a store can have %u at most",
                            options->quota_count, KVSTORE_MAX_QUOTAS);
    if (options->evict != KVSTORE_EVICT_NONE && options->max_bytes == 0)
        return kv_error_set(error, KV_USAGE, "eviction needs max_bytes");
    if (options->read_only && options->create)
        return kv_error_set(error, KV_USAGE, "a store cannot be created read-only");
    return KV_OK;
}

static void fill_in_defaults(struct kvstore_options *options)
{
    if (options->sync_interval_ms == 0)
        options->sync_interval_ms = DEFAULT_SYNC_INTERVAL_MS;
    if (options->max_value_bytes == 0)
        options->max_value_bytes = KVSTORE_DEFAULT_MAX_VALUE_BYTES;
    if (options->compact_dead_percent == 0)
        options->compact_dead_percent = DEFAULT_COMPACT_DEAD_PERCENT;
    if (options->compact_min_bytes == 0)
        options->compact_min_bytes = DEFAULT_COMPACT_MIN_BYTES;
    if (options->keep_changes_bytes == 0)
        options->keep_changes_bytes = DEFAULT_KEEP_CHANGES_BYTES;
    if (options->sweep_interval_ms == 0)
        options->sweep_interval_ms = DEFAULT_SWEEP_INTERVAL_MS;
}

/* Opening -------------------------------------------------------------------------------------- */

static enum kv_status open_data_directory(struct store_context *context, struct kv_error *error)
{
    context->dir_fd = fileio->open_at(AT_FDCWD, context->dir, O_RDONLY | O_DIRECTORY, 0);
    if (context->dir_fd >= 0)
        return KV_OK;
    if (errno == ENOENT)
        return kv_error_set(error, KV_USAGE, "%s: no such directory; create it first",
                            context->dir);
    if (errno == ENOTDIR)
        return kv_error_set(error, KV_USAGE, "%s: not a directory", context->dir);
    return kv_error_set_errno(error, "%s: cannot open the directory as uid %u", context->dir,
                              (unsigned)geteuid());
}

/* Finds the store's D and seed, or makes the store. */
static enum kv_status find_store(struct store_context *context, struct kv_error *error)
{
    const struct kvstore_options *options = &context->options;
    struct file_identity identity;
    enum kv_status status = store_identify(context->dir_fd, context->dir, &identity, error);
    if (status == KV_NOT_FOUND) {
        enum kv_status vacant = store_check_vacant(context->dir_fd, context->dir, error);
        if (vacant != KV_OK)
            return vacant;
    }
    if (status == KV_NOT_FOUND && !options->create)
        return kv_error_set(error, KV_NOT_FOUND, "%s: no store in this directory", context->dir);
    if (status == KV_NOT_FOUND) {
        uint32_t datafiles = options->datafiles ? options->datafiles : KVSTORE_DEFAULT_DATAFILES;
        status = store_create(context->dir_fd, context->dir, datafiles, &identity, error);
        context->is_new = true;
    }
    if (status != KV_OK)
        return status;
    if (options->datafiles != 0 && options->datafiles != identity.datafiles)
        return kv_error_set(
            error, KV_MISMATCH,
            "%s: the store has %u data files, not %u, and keeps them; to make another "
            "store of it: kvcheck --resize %u --to OUT %s",
            context->dir, identity.datafiles, options->datafiles, options->datafiles, context->dir);
    context->seed = identity.store_seed;
    context->datafiles = identity.datafiles;
    context->hash_key = identity.hash_key;
    if (hash_key_is_none(&context->hash_key)) /* an older version made the store */
        context->hash_key = (struct hash_key){{random_secret(), random_secret()}};
    return KV_OK;
}

static enum kv_status allocate_files(struct kvstore *store, struct kv_error *error)
{
    struct store_context *context = &store->context;
    size_t size = context->datafiles * sizeof *context->files;
    context->files = aligned_alloc(_Alignof(struct datafile), size);
    context->locks =
        lockset_create(context->options.locking, context->options.rwlock, context->datafiles);
    if (context->locks && context->options.before_unlock)
        lockset_set_before_unlock(context->locks, context->options.before_unlock);
    const struct locking_strategy *variant = store_variants.strategies[context->options.locking];
    context->lockless = variant ? variant->reads : NULL;
    if (context->lockless)
        context->readers = context->lockless->create();
    bool cached = context->options.cache_bytes > 0;
    if (cached)
        store->cache = cache_create(context->options.cache_bytes, context->datafiles,
                                    context->options.allocator);
    store->holds = holds_create();
    store->told = calloc(context->datafiles, sizeof *store->told);
    if (context->files)
        memset(context->files, 0, size);
    if (cached && !store->cache)
        return kv_error_set(error, KV_NO_MEMORY,
                            "%s: no memory for the tables of a cache of %" PRIu64
                            " bytes; take a smaller one",
                            context->dir, context->options.cache_bytes);
    if (!context->files || !context->locks || !store->holds || !store->told ||
        (context->lockless && !context->readers))
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory for %u data files", context->dir,
                            context->datafiles);
    return KV_OK;
}

static enum kv_status open_datafile(void *context, uint32_t number, struct kv_error *error)
{
    return datafile_open(context, number, error);
}

static enum kv_status recover_file(void *context, uint32_t number, struct kv_error *error)
{
    return datafile_recover(context, number, error);
}

static enum kv_status begin_file(void *context, uint32_t number, struct kv_error *error)
{
    return datafile_begin(context, number, error);
}

static enum kv_status settle_file(void *context, uint32_t number, struct kv_error *error)
{
    return datafile_settle(context, number, error);
}

static enum kv_status close_file(void *context, uint32_t number, struct kv_error *error)
{
    return datafile_close(context, number, error);
}

/* First all are read, since what one file has lost may concern others. */
static enum kv_status recover_files(struct store_context *context, struct kv_error *error)
{
    context->shared->settled = whole_transactions_settled(context);
    enum kv_status status = thread_run_parallel(context->datafiles, recover_file, context, error);
    if (status == KV_OK)
        status = whole_transactions_keep(context, error);
    if (status == KV_OK)
        status = thread_run_parallel(context->datafiles, begin_file, context, error);
    if (status == KV_OK)
        shared_store_forget_transactions(context->shared);
    for (uint32_t number = 0; number < context->datafiles; number++)
        recovery_end(&context->files[number].recovery);
    return status;
}

static enum kv_status open_files(struct kvstore *store, struct kv_error *error)
{
    struct store_context *context = &store->context;
    struct commit_replay replay;
    enum kv_status status = commit_replay_load(&replay, context->dir_fd, context->seed, error);
    if (status != KV_OK)
        return recovery_explain(context->dir, status, error);
    context->replay = &replay;
    status = thread_run_parallel(context->datafiles, open_datafile, context, error);
    context->replay = NULL;
    commit_replay_free(&replay);
    if (status == KV_OK)
        status = shared_index_take_over(&store->shared_index, context, error);
    if (status == KV_OK)
        status = recover_files(context, error);
    if (status == KV_LIMIT)
        return kv_error_set(error, KV_LIMIT,
                            "%s: too many open files: the store has %u data files and needs %s "
                            "descriptors; raise the limit (ulimit -n)",
                            context->dir, context->datafiles,
                            context->options.io == KVSTORE_IO_DIRECT ? "twice as many" : "as many");
    return status;
}

static enum kv_status remove_leftover_file(const struct store_context *context, const char *name,
                                           struct kv_error *error)
{
    if (fileio->unlink_at(context->dir_fd, name) != 0 && errno != ENOENT)
        return kv_error_set_errno(error, "%s/%s: cannot remove the file", context->dir, name);
    return KV_OK;
}

/* Removes what unfinished compactions and checkpoints have left, and the checkpoints themselves:
 * the first write makes them outdated. So it does the commit log, whose content is in the data
 * files by now. */
static enum kv_status remove_leftover_files(const struct store_context *context,
                                            struct kv_error *error)
{
    static const enum file_role roles[] = {FILE_LOG_NEW, FILE_CHECKPOINT, FILE_CHECKPOINT_NEW};
    for (uint32_t number = 0; number < context->datafiles; number++) {
        for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
            enum kv_status status =
                remove_leftover_file(context, file_name(number, roles[i]).text, error);
            if (status != KV_OK)
                return status;
        }
    }
    enum kv_status status = remove_leftover_file(context, COMMIT_LOG_NAME, error);
    if (status != KV_OK)
        return status;
    if (fileio->sync_dir(context->dir_fd) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the directory", context->dir);
    return KV_OK;
}

static void renew_index(void *store)
{
    struct kvstore *mine = store;
    shared_index_renew(&mine->shared_index, &mine->context);
}

/* The compactor comes last: it uses all of the others. */
static enum kv_status start_background(struct kvstore *store, struct kv_error *error)
{
    const struct store_context *context = &store->context;
    enum kv_status status = sync_create(context, &store->sync, error);
    if (status != KV_OK)
        return status;
    if (!links_take_over(store->sync))
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", context->dir);
    for (uint32_t number = 0; number < context->datafiles; number++)
        if (context->files[number].taken_over) /* from a process that died */
            sync_within_interval(store->sync, number);
    store->compactions = compaction_queue_create(context);
    store->past = past_logs_create(context);
    if (!store->compactions || !store->past)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", context->dir);
    struct maintenance with = {.context = context,
                               .cache = store->cache,
                               .sync = store->sync,
                               .compactions = store->compactions,
                               .holds = store->holds,
                               .past = store->past,
                               .errand = renew_index,
                               .errand_argument = store};
    status = past_logs_load(store->past, error);
    if (status == KV_OK)
        status = sweeper_create(&with, &store->sweeper, error);
    if (status == KV_OK)
        status = compactor_create(&with, &store->compactor, error);
    if (status == KV_OK && context->options.ordered)
        status = order_filler_create(context, &store->order_filler, error);
    if (status != KV_OK)
        return status;
    for (uint32_t number = 0; number < context->datafiles; number++) {
        lockset_write_lock(context->locks, number);
        compaction_queue_consider(store->compactions, &context->files[number], &context->options,
                                  context->options.compact_min_bytes);
        lockset_write_unlock(context->locks, number);
    }
    return KV_OK;
}

/* In the reverse order: each may be used by those that came after it. */
static void stop_background(struct kvstore *store)
{
    order_filler_free(store->order_filler);
    compactor_free(store->compactor);
    sweeper_free(store->sweeper);
    past_logs_free(store->past);
    compaction_queue_free(store->compactions);
    sync_free(store->sync);
}

/* The files are closed already, or are to be left as they are. */
static void free_store(struct kvstore *store)
{
    struct store_context *context = &store->context;
    shared_index_retire(&store->shared_index, context);
    for (uint32_t number = 0; context->files && number < context->datafiles; number++) {
        bound_end(&context->files[number].share);
        ordering_free(context->files[number].ordering);
        generation_free(context->files[number].current);
    }
    quota_table_free(store->quotas);
    pthread_mutex_destroy(&store->quota_lock);
    pthread_mutex_destroy(&store->room_lock);
    pthread_mutex_destroy(&store->told_lock);
    free(store->told);
    free(context->files);
    lockset_free(context->locks);
    if (context->lockless)
        context->lockless->free(context->readers);
    cache_free(store->cache);
    holds_free(store->holds);
    shared_index_end(&store->shared_index, context);
    lockfile_release(store->lockfile);
    if (context->dir_fd >= 0)
        close(context->dir_fd);
    free(context->dir);
    free(store);
}

static enum kv_status open_locked_store(struct kvstore *store, struct kv_error *error)
{
    struct store_context *context = &store->context;
    bool read_only = context->options.read_only;
    enum kv_status status = open_data_directory(context, error);
    if (status == KV_OK)
        status =
            lockfile_acquire(context->dir, context->dir_fd, read_only, &store->lockfile, error);
    if (status == KV_OK)
        status = find_store(context, error);
    if (status == KV_OK)
        status = allocate_files(store, error);
    if (status == KV_OK)
        status = shared_index_begin(&store->shared_index, context, error);
    if (status == KV_OK)
        status = open_files(store, error);
    if (status == KV_OK && !read_only)
        status = remove_leftover_files(context, error);
    if (status == KV_OK)
        shared_index_serve(&store->shared_index, context);
    if (status == KV_OK && !read_only)
        status = start_background(store, error);
    if (status == KV_OK && !read_only)
        status = evict_begin(store, error);
    if (status == KV_OK && !read_only)
        status = quotas_begin(store, error);
    store->reads_count = store->cache || store->bound.evict == KVSTORE_EVICT_S3FIFO;
    return status;
}

enum kv_status kvstore_open(const char *dir, const struct kvstore_options *options,
                            struct kvstore **store, struct kv_error *error)
{
    static const struct kvstore_options no_options;
    *store = NULL;
    if (!options)
        options = &no_options;
    enum kv_status status = check_store_options(options, error);
    if (status != KV_OK)
        return status;

    struct kvstore *created = calloc(1, sizeof *created);
    char *dir_copy = strdup(dir);
    if (!created || !dir_copy) {
        free(created);
        free(dir_copy);
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", dir);
    }
    created->context.dir = dir_copy;
    pthread_mutex_init(&created->quota_lock, NULL);
    pthread_mutex_init(&created->room_lock, NULL);
    pthread_mutex_init(&created->told_lock, NULL);
    created->context.dir_fd = -1;
    created->context.options = *options;
    fill_in_defaults(&created->context.options);
    created->may_have_commit_log =
        !options->read_only && options->durability == KVSTORE_SYNC_ALWAYS;
    status = open_locked_store(created, error);
    if (status == KV_OK) {
        struct kvstore_file_statistics first;
        for (uint32_t number = 0; number < created->context.datafiles; number++)
            kvstore_file_statistics(created, number, &first); /* the answer until the next */
        if (error)
            *error = (struct kv_error){0}; /* what was missing has been created */
        *store = created;
    } else {
        stop_background(created);
        free_store(created);
    }
    return status;
}

enum kv_status kvstore_close(struct kvstore *store, struct kv_error *error)
{
    if (!store)
        return KV_OK;
    const struct store_context *context = &store->context;
    stop_background(store);
    /* What is on disk of one file is of use only with what belongs to it in the others. */
    enum kv_status status =
        thread_run_parallel(context->datafiles, settle_file, &store->context, error);
    if (status == KV_OK && !context->options.read_only)
        context->shared->settled = context->shared->last_transaction;
    enum kv_status closed = thread_run_parallel(context->datafiles, close_file, &store->context,
                                                status == KV_OK ? error : NULL);
    if (status == KV_OK)
        status = closed;
    if (store->may_have_commit_log &&
        status == KV_OK) /* else it may have what a data file has not */
        status = remove_leftover_file(context, COMMIT_LOG_NAME, error);
    if (!context->options.read_only && fileio->sync_dir(context->dir_fd) != 0 && status == KV_OK)
        status = kv_error_set_errno(error, "%s: cannot sync the directory", context->dir);
    free_store(store);
    return status;
}

enum kv_status kvstore_check_writable(const struct kvstore *store, struct kv_error *error)
{
    const struct store_context *context = &store->context;
    for (uint32_t number = 0; number < context->datafiles; number++) {
        struct file_name name = file_name(number, FILE_LOG);
        if (faccessat(context->dir_fd, name.text, W_OK, AT_EACCESS) != 0)
            return kv_error_set_errno(error, "%s/%s: uid %u cannot write to the file", context->dir,
                                      name.text, (unsigned)geteuid());
    }
    return KV_OK;
}

enum kv_status kvstore_compact(struct kvstore *store, uint32_t number, struct kv_error *error)
{
    const struct store_context *context = &store->context;
    if (number >= context->datafiles)
        return kv_error_set(error, KV_USAGE, "no data file %u: the store has %u", number,
                            context->datafiles);
    if (!store->compactions)
        return kv_error_set(error, KV_READ_ONLY, "%s: the store is open read-only", context->dir);
    return compaction_queue_call(store->compactions, number, error);
}

void kvstore_renew_index(struct kvstore *store)
{
    if (store->compactor)
        compactor_ask(store->compactor);
}

void kvstore_request_compaction(struct kvstore *store, uint32_t number)
{
    if (store->compactions && number < store->context.datafiles)
        compaction_queue_want_now(store->compactions, number);
}
