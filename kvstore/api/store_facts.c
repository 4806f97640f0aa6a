/* What a store tells about itself. */
#include <string.h>

#include "kvstore/api/store.h"
#include "kvstore/cache/cache.h"
#include "kvstore/core/readers.h"
#include "kvstore/index/arena.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/sync/sync.h"

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

void kvstore_file_statistics(struct kvstore *store, uint32_t number,
                             struct kvstore_file_statistics *statistics)
{
    const struct datafile *file = &store->context.files[number];
    *statistics = (struct kvstore_file_statistics){0};
    lockset_read_lock(store->context.locks, number);
    const struct generation *generation = file->current;
    statistics->keys = index_count(generation->index);
    statistics->expiring_keys = generation->words->expiring_keys;
    statistics->live_bytes = generation->words->live_bytes;
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
    statistics->taken_over = file->taken_over;
    statistics->max_version = file->current->words->max_version;
    lockset_read_unlock(store->context.locks, number);
    if (!store->sync)
        return;
    struct past_logs_facts past = past_logs_facts(store->past, number);
    statistics->past_logs = past.count;
    statistics->past_log_bytes = past.bytes;
    struct sync_counts counts = sync_counts(store->sync, number);
    statistics->synced_bytes = counts.synced_bytes;
    statistics->syncs = counts.syncs;
    statistics->sync_failures = counts.failures;
    statistics->unsynced_ms = counts.unsynced_ms;
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
           (store->context.readers ? readers_memory_bytes() : 0);
}

void kvstore_direct_facts(struct kvstore *store, struct kvstore_direct_facts *facts)
{
    const struct shared_index *direct = &store->shared_index;
    struct arena_counts counts = arena_counts(store->context.arena);
    bool is_on = direct->mode != KVSTORE_DIRECT_OFF;
    *facts = (struct kvstore_direct_facts){.direct = direct->mode,
                                           .device = direct->device,
                                           .inode = direct->inode,
                                           .shared_bytes = counts.shared_bytes,
                                           .private_bytes = counts.own_chunks * ARENA_CHUNK_BYTES};
    if (is_on)
        memcpy(facts->name, direct->name.text, sizeof facts->name);
    for (uint32_t number = 0; number < store->context.datafiles; number++)
        facts->taken_over_files += store->context.files[number].taken_over;
}
