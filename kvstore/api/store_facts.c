/* store_facts: what a store tells about itself. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "common/time/clock.h"
#include "kvstore/api/store.h"
#include "kvstore/cache/cache.h"
#include "kvstore/eviction/s3fifo.h"
#include "kvstore/index/arena.h"
#include "kvstore/maintenance/order_filler.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/disk_fit.h"
#include "kvstore/table/ordering.h"

uint32_t kvstore_datafiles(const struct kvstore *store)
{
    return store->context.datafiles;
}

uint32_t kvstore_max_value_bytes(const struct kvstore *store)
{
    return context_max_value_bytes(&store->context);
}

enum kv_status kvstore_set_max_value_bytes(struct kvstore *store, uint32_t max_value_bytes)
{
    if (max_value_bytes == 0 || max_value_bytes > KVSTORE_MAX_VALUE_BYTES)
        return KV_USAGE;
    __atomic_store_n(&store->context.options.max_value_bytes, max_value_bytes, __ATOMIC_RELAXED);
    return KV_OK;
}

uint32_t kvstore_file_of(const struct kvstore *store, struct kv_slice key)
{
    return keyhash_file(store->context.seed, key, store->context.datafiles);
}

/* How long somebody may keep a file's lock before the last answer must do. Once that was in vain,
 * nobody waits for any file for a second: with many files, or one lock for all, waits would add
 * up. */
#define PATIENCE_MS   100u
#define IMPATIENCE_MS 1000u

/* Holds: the file's lock for reading. */
static void collect_file_statistics(const struct kvstore *store, uint32_t number,
                                    struct kvstore_file_statistics *statistics)
{
    const struct datafile *file = &store->context.files[number];
    const struct generation *generation = file->current;
    statistics->keys = index_count(generation->index);
    statistics->expiring_keys = generation->words->expiring_keys;
    statistics->live_bytes = generation->words->live_bytes;
    statistics->dead_bytes = generation_dead_bytes(generation);
    statistics->spare_bytes = generation->free_extents.bytes;
    statistics->file_bytes = generation->log.allocated_bytes;
    statistics->index_bytes = index_memory_bytes(generation->index);
    statistics->compactions = file->compactions;
    statistics->compaction_failures = file->compaction_failures;
    statistics->compaction_failing = file->compaction_failing;
    for (unsigned i = 0; i < DATAFILE_DAMAGED_MAX; i++) {
        uint64_t offset = atomic_load(&file->damaged_at[i]);
        if (offset == 0)
            continue;
        statistics->damaged_records++;
        if (statistics->damaged_at == 0 || offset < statistics->damaged_at)
            statistics->damaged_at = offset;
    }
    statistics->expired = file->expired;
    statistics->read_retries = atomic_load_explicit(&file->read_retries, memory_order_relaxed);
    statistics->read_fallbacks = atomic_load_explicit(&file->read_fallbacks, memory_order_relaxed);
    statistics->recovered_bytes_cut = file->recovery.cut_bytes;
    statistics->from_checkpoint = file->recovery.from_checkpoint;
    statistics->read_only = datafile_is_read_only(file);
    statistics->full = file->full;
    statistics->taken_over = file->taken_over;
    struct stat log;
    statistics->nameless = fstat(generation->log.fd, &log) == 0 && log.st_nlink == 0;
    statistics->max_version = file->current->words->max_version;
}

/* Takes the file's lock for reading. False: somebody keeps it, and the last answer must do. */
static bool lock_patiently(struct kvstore *store, uint32_t number)
{
    uint64_t in_vain_ms = atomic_load(&store->waited_in_vain_ms);
    bool waits = clock_monotonic_coarse_ms() - in_vain_ms >= IMPATIENCE_MS || in_vain_ms == 0;
    bool locked = lockset_try_read_lock(store->context.locks, number, waits ? PATIENCE_MS : 0);
    if (!locked && waits)
        atomic_store(&store->waited_in_vain_ms, clock_monotonic_coarse_ms());
    return locked;
}

void kvstore_file_statistics(struct kvstore *store, uint32_t number,
                             struct kvstore_file_statistics *statistics)
{
    struct told_file *told = &store->told[number];
    bool locked = lock_patiently(store, number);
    uint64_t now_ms = clock_monotonic_coarse_ms();
    *statistics = (struct kvstore_file_statistics){0};
    if (locked) {
        collect_file_statistics(store, number, statistics);
        lockset_read_unlock(store->context.locks, number);
    }
    pthread_mutex_lock(&store->told_lock);
    if (locked) {
        told->statistics = *statistics;
        told->told_ms = now_ms;
    } else {
        *statistics = told->statistics;
        statistics->stale_ms = now_ms - told->told_ms + 1;
    }
    pthread_mutex_unlock(&store->told_lock);
    statistics->appended_bytes = atomic_load(&store->context.files[number].appended_bytes);
    if (!store->sync)
        return;
    struct past_logs_facts past = past_logs_facts(store->past, number);
    statistics->past_logs = past.count;
    statistics->past_log_bytes = past.bytes;
    struct sync_counts counts = sync_counts(store->sync, number);
    statistics->synced_bytes = counts.synced_bytes < statistics->appended_bytes
                                   ? counts.synced_bytes
                                   : statistics->appended_bytes; /* which may be older */
    statistics->syncs = counts.syncs;
    statistics->sync_failures = counts.failures;
    statistics->unsynced_ms = counts.unsynced_ms;
}

void kvstore_lock_facts(const struct kvstore *store, uint32_t file,
                        struct kvstore_lock_facts *facts)
{
    lockset_facts(store->context.locks, file, facts);
}

bool kvstore_is_in_place(const struct kvstore *store)
{
    struct stat opened, found;
    return fstat(store->context.dir_fd, &opened) == 0 && stat(store->context.dir, &found) == 0 &&
           opened.st_ino == found.st_ino && opened.st_dev == found.st_dev;
}

/* The size of a file's tree. */
static struct key_tree_size tell_order(struct kvstore *store, uint32_t number)
{
    struct told_file *told = &store->told[number];
    struct key_tree_size size = {0};
    bool locked = lock_patiently(store, number);
    if (locked) {
        size = key_tree_size(store->context.files[number].ordering->tree);
        lockset_read_unlock(store->context.locks, number);
    }
    pthread_mutex_lock(&store->told_lock);
    if (locked)
        told->order = size;
    size = told->order;
    pthread_mutex_unlock(&store->told_lock);
    return size;
}

void kvstore_order_facts(struct kvstore *store, struct kvstore_order_facts *facts)
{
    *facts = (struct kvstore_order_facts){.ordered = store->order_filler != NULL, .whole = true};
    for (uint32_t number = 0; facts->ordered && number < store->context.datafiles; number++) {
        struct key_tree_size size = tell_order(store, number);
        facts->whole &= ordering_is_whole(store->context.files[number].ordering);
        facts->keys += size.keys;
        facts->bytes += size.bytes;
        facts->leaves += size.leaves;
        facts->room += size.leaves * KEY_LEAF_ITEMS;
        facts->depth = size.depth > facts->depth ? size.depth : facts->depth;
    }
    /* A writer that could not follow a tree, for a damaged record, empties it and wakes nobody. */
    if (facts->ordered && !facts->whole)
        order_filler_wake(store->order_filler);
    facts->whole &= facts->ordered;
}

void kvstore_bound_statistics(struct kvstore *store, struct kvstore_bound_statistics *statistics)
{
    struct bound *bound = &store->bound;
    *statistics = (struct kvstore_bound_statistics){0};
    if (store->context.options.max_bytes == 0)
        return;
    *statistics = (struct kvstore_bound_statistics){
        .max_bytes = atomic_load(&bound->asked_bytes),
        .fitting_bytes = disk_fit_bytes(store->context.dir_fd, store->context.datafiles),
        .live_bytes = atomic_load(&bound->live_bytes),
        .evict = bound->evict,
        .evictions = atomic_load(&bound->evictions),
        .evicted_bytes = atomic_load(&bound->evicted_bytes),
        .refusals = atomic_load(&bound->refusals),
    };
    for (uint32_t number = 0; number < store->context.datafiles; number++) {
        const struct s3fifo *policy = store->context.files[number].share.policy;
        struct told_file *told = &store->told[number];
        if (!policy)
            continue;
        if (lock_patiently(store, number)) {
            atomic_store(&told->policy_bytes, s3fifo_memory_bytes(policy));
            lockset_read_unlock(store->context.locks, number);
        }
        statistics->memory_bytes += atomic_load(&told->policy_bytes);
    }
}

void kvstore_cache_statistics(struct kvstore *store, struct kvstore_cache_statistics *statistics)
{
    *statistics = (struct kvstore_cache_statistics){0};
    if (store->cache)
        cache_statistics(store->cache, statistics);
}

uint64_t kvstore_lock_memory_bytes(const struct kvstore *store)
{
    return lockset_memory_bytes(store->context.locks) +
           (store->context.lockless ? store->context.lockless->memory_bytes() : 0);
}

void kvstore_direct_facts(struct kvstore *store, struct kvstore_direct_facts *facts)
{
    const struct shared_index *direct = &store->shared_index;
    struct arena_counts counts = arena_counts(store->context.arena);
    bool is_on = direct->mode != KVSTORE_DIRECT_OFF;
    *facts = (struct kvstore_direct_facts){.direct = direct->mode,
                                           .device = direct->device,
                                           .inode = direct->inode,
                                           .number = direct->number,
                                           .is_gone = arena_object_is_gone(store->context.arena),
                                           .shared_bytes = counts.shared_bytes,
                                           .private_bytes = counts.own_chunks * ARENA_CHUNK_BYTES};
    if (is_on)
        memcpy(facts->name, direct->name.text, sizeof facts->name);
    for (uint32_t number = 0; number < store->context.datafiles; number++)
        facts->taken_over_files += store->context.files[number].taken_over;
}
