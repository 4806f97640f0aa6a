#include "kvstore/cache/cache.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/sizes.h"
#include "kvstore/api/store.h"

/* Keys looked at together: as many memory accesses as a core keeps in flight, and more. */
#define ROUND_KEYS 32u

/* What a lookup of each key will miss in the CPU's cache: its slot in the index, then its record.
 * Both are asked for all keys of a file before the first is needed, so that the misses overlap
 * instead of adding up (Chen, Ailamaki, Gibbons, Mowry, "Improving Hash Join Performance through
 * Prefetching", ICDE 2004). Only hints: what changes before the lookup costs that lookup its
 * miss. */
static void prefetch_file(const struct store_context *context, uint32_t file,
                          const uint32_t *hashes, size_t count)
{
    struct reader *reader = context->lockless ? context->lockless->enter(context->readers) : NULL;
    if (!reader)
        lockset_read_lock(context->locks, file);
    const struct generation *generation = datafile_current(&context->files[file]);
    for (size_t i = 0; i < count; i++)
        index_prefetch(generation->index, hashes[i]);
    for (size_t i = 0; i < count; i++) {
        struct index_probe probe;
        uint64_t offset;
        index_probe_start(&probe, generation->index, hashes[i]);
        if (index_probe_next(&probe, &offset))
            logfile_prefetch(&generation->log, offset);
    }
    if (reader)
        context->lockless->leave(reader);
    else
        lockset_read_unlock(context->locks, file);
}

static void prefetch_round(struct kvstore *store, const struct kv_slice *keys, size_t count)
{
    struct key_place places[ROUND_KEYS];
    uint32_t hashes[ROUND_KEYS];
    for (size_t i = 0; i < count; i++)
        places[i] = key_place(&store->context, keys[i]);
    for (size_t i = 0; i < count; i++) {
        struct datafile *file = places[i].file;
        size_t same = 0;
        for (size_t j = i; file && j < count; j++) {
            if (places[j].file != file)
                continue;
            hashes[same++] = keyhash_index(places[j].hash);
            places[j].file = NULL;
        }
        if (file && store->cache)
            same = cache_leave_out(store->cache, file->number, hashes, same);
        if (same > 0)
            prefetch_file(&store->context, file->number, hashes, same);
    }
}

void kvstore_prefetch(struct kvstore *store, const struct kv_slice *keys, size_t count)
{
    if (store->context.options.io != KVSTORE_IO_MMAP)
        return;
    for (size_t done = 0; done < count; done += ROUND_KEYS)
        prefetch_round(store, keys + done, at_most(count - done, ROUND_KEYS));
}
