#include "kvstore/api/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/random.h"
#include "common/reserved.h"
#include "kvstore/cache/cache.h"
#include "kvstore/maintenance/compact.h"
#include "kvstore/log/fileio.h"
#include "kvstore/api/lockfile.h"
#include "kvstore/api/store_create.h"
#include "kvstore/core/readers.h"
#include "kvstore/maintenance/sweep.h"
#include "kvstore/sync/sync.h"
#include "kvstore/core/thread.h"

#define DEFAULT_SYNC_INTERVAL_MS     1000u
#define DEFAULT_SWEEP_INTERVAL_MS    1000u
#define DEFAULT_COMPACT_DEAD_PERCENT 50u
#define DEFAULT_COMPACT_MIN_BYTES    (UINT64_C(4) << 20)

/* Options -------------------------------------------------------------------------------------- */

const char *kvstore_version(void)
{
    return MQKV_VERSION_STRING;
}

const char *kvstore_io_name(enum kvstore_io io)
{
    static const char *const names[KVSTORE_IO_COUNT] = {
        [KVSTORE_IO_MMAP] = "mmap", [KVSTORE_IO_PREAD] = "pread"};
    return (unsigned)io < KVSTORE_IO_COUNT ? names[io] : NULL;
}

static enum kv_status check_options(const struct kvstore_options *options, struct kv_error *error)
{
    if (!RESERVED_IS_CLEAR(options->reserved))
        return kv_error_set(error, KV_UNSUPPORTED, RESERVED_ADVICE);
    if (options->datafiles > KVSTORE_MAX_DATAFILES)
        return kv_error_set(error, KV_USAGE, "%u data files: a store can have 1 to %u",
                            options->datafiles, KVSTORE_MAX_DATAFILES);
    if (options->max_value_bytes > KVSTORE_MAX_VALUE_BYTES)
        return kv_error_set(error, KV_USAGE, "max_value_bytes %u: the most is %u",
                            options->max_value_bytes, KVSTORE_MAX_VALUE_BYTES);
    if (options->compact_dead_percent > 100)
        return kv_error_set(error, KV_USAGE, "compact_dead_percent %u: the most is 100",
                            options->compact_dead_percent);
    if (!kvstore_locking_name(options->locking))
        return kv_error_set(error, KV_USAGE, "unknown locking strategy %u",
                            (unsigned)options->locking);
    if (!kvstore_rwlock_name(options->rwlock))
        return kv_error_set(error, KV_USAGE, "unknown preference of reader-writer locks %u",
                            (unsigned)options->rwlock);
    if (options->rwlock != KVSTORE_PREFER_WRITER && !kvstore_locking_has_rwlocks(options->locking))
        return kv_error_set(error, KV_USAGE, "%s: the locks of %s are mutexes and prefer nobody",
                            kvstore_rwlock_name(options->rwlock),
                            kvstore_locking_name(options->locking));
    if (options->cache_bytes != 0 && options->cache_bytes < KVSTORE_MIN_CACHE_BYTES)
        return kv_error_set(error, KV_USAGE,
                            "cache_bytes %" PRIu64 ": the least is %" PRIu64 ", or 0 for no cache",
                            options->cache_bytes, KVSTORE_MIN_CACHE_BYTES);
    if (!kvstore_allocator_name(options->allocator))
        return kv_error_set(error, KV_USAGE, "unknown allocator %u", (unsigned)options->allocator);
    if (!kvstore_io_name(options->io))
        return kv_error_set(error, KV_USAGE, "unknown way of reading files %u",
                            (unsigned)options->io);
    if ((unsigned)options->durability > KVSTORE_SYNC_ALWAYS)
        return kv_error_set(error, KV_USAGE, "unknown durability %u",
                            (unsigned)options->durability);
    if (options->read_only && options->create)
        return kv_error_set(error, KV_USAGE, "a store can not be created read-only");
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
    if (options->sweep_interval_ms == 0)
        options->sweep_interval_ms = DEFAULT_SWEEP_INTERVAL_MS;
}

/* Opening -------------------------------------------------------------------------------------- */

static enum kv_status open_directory(struct kvstore *store, struct kv_error *error)
{
    store->dir_fd = fileio->open_at(AT_FDCWD, store->dir, O_RDONLY | O_DIRECTORY, 0);
    if (store->dir_fd >= 0)
        return KV_OK;
    if (errno == ENOENT)
        return kv_error_set(error, KV_USAGE, "%s: there is no such directory; make it first",
                            store->dir);
    if (errno == ENOTDIR)
        return kv_error_set(error, KV_USAGE, "%s is no directory, which a store needs", store->dir);
    return kv_error_set_errno(error, "%s: can not open the directory as uid %u", store->dir,
                              (unsigned)geteuid());
}

/* Finds the store's D and seed, or makes the store. */
static enum kv_status find_store(struct kvstore *store, struct kv_error *error)
{
    const struct kvstore_options *options = &store->options;
    struct file_identity identity;
    enum kv_status status = store_identify(store->dir_fd, store->dir, &identity, error);
    if (status == KV_NOT_FOUND && store_check_vacant(store->dir_fd, store->dir, error) != KV_OK)
        return KV_CORRUPT;
    if (status == KV_NOT_FOUND && !options->create)
        return kv_error_set(error, KV_NOT_FOUND, "%s: there is no store in this directory",
                            store->dir);
    if (status == KV_NOT_FOUND) {
        uint32_t datafiles = options->datafiles ? options->datafiles : KVSTORE_DEFAULT_DATAFILES;
        status = store_create(store->dir_fd, store->dir, datafiles, &identity, error);
        store->is_new = true;
    }
    if (status != KV_OK)
        return status;
    if (options->datafiles != 0 && options->datafiles != identity.datafiles)
        return kv_error_set(error, KV_MISMATCH,
                            "%s: the store has %u data files, not %u; the number is fixed when a "
                            "store is made",
                            store->dir, identity.datafiles, options->datafiles);
    store->seed = identity.store_seed;
    store->datafiles = identity.datafiles;
    store->hash_key = identity.hash_key;
    if (hash_key_is_none(&store->hash_key)) /* an older version made the store */
        store->hash_key = (struct hash_key){{random_secret(), random_secret()}};
    return KV_OK;
}

static enum kv_status allocate_files(struct kvstore *store, struct kv_error *error)
{
    size_t size = store->datafiles * sizeof *store->files;
    store->files = aligned_alloc(_Alignof(struct datafile), size);
    store->locks = lockset_create(store->options.locking, store->options.rwlock, store->datafiles);
    bool optimistic = store->options.locking == KVSTORE_OPTIMISTIC;
    if (optimistic)
        store->readers = readers_create();
    bool cached = store->options.cache_bytes > 0;
    if (cached)
        store->cache =
            cache_create(store->options.cache_bytes, store->datafiles, store->options.allocator);
    if (store->files)
        memset(store->files, 0, size);
    if (cached && !store->cache)
        return kv_error_set(error, KV_NO_MEMORY,
                            "%s: no memory for the tables of a cache of %" PRIu64
                            " bytes; take a smaller one",
                            store->dir, store->options.cache_bytes);
    if (!store->files || !store->locks || (optimistic && !store->readers))
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory for %u data files", store->dir,
                            store->datafiles);
    return KV_OK;
}

static enum kv_status open_file(void *store, uint32_t number, struct kv_error *error)
{
    return datafile_open(store, number, error);
}

static enum kv_status close_file(void *store, uint32_t number, struct kv_error *error)
{
    return datafile_close(store, number, error);
}

static enum kv_status open_files(struct kvstore *store, struct kv_error *error)
{
    enum kv_status status = thread_run_parallel(store->datafiles, open_file, store, error);
    if (status == KV_LIMIT)
        return kv_error_set(
            error, KV_LIMIT,
            "%s: too many open files: the store has %u data files and needs as many "
            "descriptors; raise the limit (ulimit -n)",
            store->dir, store->datafiles);
    return status;
}

/* What unfinished compactions and checkpoints have left, and the checkpoints themselves: they are
 * outdated by the first write. */
static enum kv_status remove_leftovers(struct kvstore *store, struct kv_error *error)
{
    static const enum file_role roles[] = {FILE_LOG_NEW, FILE_CHECKPOINT, FILE_CHECKPOINT_NEW};
    for (uint32_t number = 0; number < store->datafiles; number++) {
        for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
            struct file_name name = file_name(number, roles[i]);
            if (fileio->unlink_at(store->dir_fd, name.text) != 0 && errno != ENOENT)
                return kv_error_set_errno(error, "%s/%s: can not remove the file", store->dir,
                                          name.text);
        }
    }
    if (fileio->sync_dir(store->dir_fd) != 0)
        return kv_error_set_errno(error, "%s: can not sync the directory", store->dir);
    return KV_OK;
}

static enum kv_status start_background(struct kvstore *store, struct kv_error *error)
{
    enum kv_status status = sync_create(store, &store->sync, error);
    if (status == KV_OK)
        status = compactor_create(store, &store->compactor, error);
    if (status == KV_OK) /* last: it tells the compactor what it finds */
        status = sweeper_create(store, &store->sweeper, error);
    if (status != KV_OK)
        return status;
    for (uint32_t number = 0; number < store->datafiles; number++) {
        lockset_write_lock(store->locks, number);
        datafile_consider_compaction(store, &store->files[number], false);
        lockset_write_unlock(store->locks, number);
    }
    return KV_OK;
}

static void stop_background(struct kvstore *store)
{
    sweeper_free(store->sweeper);
    compactor_free(store->compactor);
    sync_free(store->sync);
}

/* The files are closed already, or are to be left as they are. */
static void free_store(struct kvstore *store)
{
    for (uint32_t number = 0; store->files && number < store->datafiles; number++)
        generation_free(store->files[number].current);
    free(store->files);
    lockset_free(store->locks);
    readers_free(store->readers);
    cache_free(store->cache);
    lockfile_release(store->lockfile);
    if (store->dir_fd >= 0)
        close(store->dir_fd);
    free(store->dir);
    free(store);
}

static enum kv_status open_store(struct kvstore *store, struct kv_error *error)
{
    bool read_only = store->options.read_only;
    enum kv_status status = open_directory(store, error);
    if (status == KV_OK)
        status = lockfile_acquire(store->dir, store->dir_fd, read_only, &store->lockfile, error);
    if (status == KV_OK)
        status = find_store(store, error);
    if (status == KV_OK)
        status = allocate_files(store, error);
    if (status == KV_OK)
        status = open_files(store, error);
    if (status == KV_OK && !read_only)
        status = remove_leftovers(store, error);
    if (status == KV_OK && !read_only)
        status = start_background(store, error);
    return status;
}

enum kv_status kvstore_open(const char *dir, const struct kvstore_options *options,
                            struct kvstore **store, struct kv_error *error)
{
    static const struct kvstore_options no_options;
    *store = NULL;
    if (!options)
        options = &no_options;
    enum kv_status status = check_options(options, error);
    if (status != KV_OK)
        return status;

    struct kvstore *created = calloc(1, sizeof *created);
    char *dir_copy = strdup(dir);
    if (!created || !dir_copy) {
        free(created);
        free(dir_copy);
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", dir);
    }
    created->dir = dir_copy;
    created->dir_fd = -1;
    created->options = *options;
    fill_in_defaults(&created->options);
    status = open_store(created, error);
    if (status == KV_OK) {
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
    stop_background(store);
    enum kv_status status = thread_run_parallel(store->datafiles, close_file, store, error);
    if (!store->options.read_only && fileio->sync_dir(store->dir_fd) != 0 && status == KV_OK)
        status = kv_error_set_errno(error, "%s: can not sync the directory", store->dir);
    free_store(store);
    return status;
}

/* All files ----------------------------------------------------------------------------------- */

static struct kvstore_ticket latest_ticket(const struct kvstore *store, uint32_t number)
{
    struct kvstore_ticket ticket = {number, atomic_load(&store->files[number].appended_bytes)};
    return ticket;
}

enum kv_status kvstore_sync(struct kvstore *store)
{
    if (!store->sync)
        return KV_OK;
    /* All are asked for first, so that they run in parallel. */
    for (uint32_t number = 0; number < store->datafiles; number++)
        if (!kvstore_is_durable(store, latest_ticket(store, number)))
            kvstore_request_sync(store, latest_ticket(store, number));
    enum kv_status first_failure = KV_OK;
    for (uint32_t number = 0; number < store->datafiles; number++) {
        enum kv_status status = kvstore_wait_durable(store, latest_ticket(store, number));
        if (first_failure == KV_OK)
            first_failure = status;
    }
    return first_failure;
}

enum kv_status kvstore_check_writable(const struct kvstore *store, struct kv_error *error)
{
    for (uint32_t number = 0; number < store->datafiles; number++) {
        struct file_name name = file_name(number, FILE_LOG);
        if (faccessat(store->dir_fd, name.text, W_OK, AT_EACCESS) != 0)
            return kv_error_set_errno(error, "%s/%s: uid %u can not write to the file", store->dir,
                                      name.text, (unsigned)geteuid());
    }
    return KV_OK;
}

/* Facts ---------------------------------------------------------------------------------------- */

uint32_t kvstore_datafiles(const struct kvstore *store)
{
    return store->datafiles;
}

uint32_t kvstore_max_value_bytes(const struct kvstore *store)
{
    return store->options.max_value_bytes;
}

uint32_t kvstore_file_of(const struct kvstore *store, struct kv_slice key)
{
    return keyhash_file(store->seed, key, store->datafiles);
}

void kvstore_file_statistics(struct kvstore *store, uint32_t number,
                             struct kvstore_file_statistics *statistics)
{
    const struct datafile *file = &store->files[number];
    *statistics = (struct kvstore_file_statistics){0};
    lockset_read_lock(store->locks, number);
    const struct generation *generation = file->current;
    statistics->keys = index_count(generation->index);
    statistics->expiring_keys = generation->expiring_keys;
    statistics->live_bytes = generation->live_bytes;
    statistics->dead_bytes = generation_dead_bytes(generation);
    statistics->file_bytes = generation->log.allocated_bytes;
    statistics->index_bytes = index_memory_bytes(generation->index);
    statistics->appended_bytes = atomic_load(&file->appended_bytes);
    statistics->compactions = file->compactions;
    statistics->compaction_failures = file->compaction_failures;
    statistics->expired = file->expired;
    statistics->read_retries = atomic_load_explicit(&file->read_retries, memory_order_relaxed);
    statistics->read_fallbacks = atomic_load_explicit(&file->read_fallbacks, memory_order_relaxed);
    statistics->recovered_bytes_cut = file->recovered_bytes_cut;
    statistics->from_checkpoint = file->from_checkpoint;
    statistics->read_only = datafile_is_read_only(file);
    statistics->full = file->full;
    lockset_read_unlock(store->locks, number);
    if (!store->sync)
        return;
    struct sync_counts counts = sync_counts(store->sync, number);
    statistics->synced_bytes = counts.synced_bytes;
    statistics->syncs = counts.syncs;
    statistics->sync_failures = counts.failures;
}

void kvstore_cache_statistics(struct kvstore *store, struct kvstore_cache_statistics *statistics)
{
    *statistics = (struct kvstore_cache_statistics){0};
    if (store->cache)
        cache_statistics(store->cache, statistics);
}

uint64_t kvstore_lock_memory_bytes(const struct kvstore *store)
{
    return lockset_memory_bytes(store->locks) + (store->readers ? readers_memory_bytes() : 0);
}

uint64_t kvstore_take_lock_wait_ns(void)
{
    return lockset_take_wait_ns();
}
