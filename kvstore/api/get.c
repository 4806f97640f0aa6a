/* Reading the entry of one key: kvstore_get, kvstore_get_to. */
#include "kvstore/api/buffer_place.h"
#include "kvstore/api/store.h"
#include "kvstore/cache/cache.h"
#include "kvstore/eviction/s3fifo.h"
#include "kvstore/table/found_record.h"

/* The arguments of a get. place NULL: the entry only. */
struct get {
    struct kv_slice key;
    kvstore_place place;
    void *place_context;
    struct kvstore_entry *entry; /* or NULL */
};

/* Holds: the file's lock, or a place among the readers without one. */
__attribute__((always_inline)) static inline enum kv_status
give_found(const struct store_context *context, struct datafile *file,
           const struct generation *generation, struct lookup *lookup, const struct get *get)
{
    if (!lookup->found)
        return found_record_explain_absence(context, file, lookup, get->key);
    uint32_t mark = mapguard_mark(generation->log.guard);
    bool live = record_is_live(&lookup->record);
    if (live && !get->place) {
        record_describe(&lookup->record, get->entry);
        return KV_OK;
    }
    enum kv_status status =
        found_record_verify_in(context, file, generation, READ_BUFFER_LOOKUP, lookup);
    if (status != KV_OK)
        return status;
    status = live ? record_give(&lookup->record, get->place, get->place_context, get->entry)
                  : KV_NOT_FOUND;
    if (!mapguard_held(generation->log.guard, mark)) /* the copy may have zeros in it */
        return datafile_tell_broken(context, file, &generation->log);
    return status;
}

/* Gets without the lock. False: the caller must take it. Kept out of the way of those that take
 * it. */
__attribute__((noinline)) static bool get_without_lock(const struct store_context *context,
                                                       struct key_place at, const struct get *get,
                                                       enum kv_status *status)
{
    const struct generation *generation;
    struct lookup lookup;
    struct reader *reader = context->lockless->find(context, at.file, keyhash_index(at.hash),
                                                    get->key, &generation, &lookup);
    if (!reader)
        return false;
    *status = give_found(context, at.file, generation, &lookup, get);
    context->lockless->leave(reader);
    logfile_end(context->options.io);
    return true;
}

/* Gets with a cache. What it does not know is read under the lock, so that it may be kept, even if
 * reads take no lock otherwise. */
__attribute__((noinline)) static enum kv_status
get_cached(struct kvstore *store, struct key_place at, const struct get *get)
{
    const struct store_context *context = &store->context;
    uint32_t number = at.file->number;
    uint32_t hash = keyhash_index(at.hash);
    enum kv_status status;
    if (cache_get(store->cache, number, hash, get->key, get->place, get->place_context, get->entry,
                  &status))
        return status;
    struct lookup lookup;
    lockset_read_lock(context->locks, number);
    const struct generation *generation = at.file->current;
    generation_find(generation, hash, get->key, &lookup);
    status = give_found(context, at.file, generation, &lookup, get);
    uint32_t mark = mapguard_mark(generation->log.guard);
    if ((status == KV_OK && get->place) || status == KV_BUFFER_TOO_SMALL)
        cache_put(store->cache, number, hash, &lookup.record);
    if (!mapguard_held(generation->log.guard, mark))
        cache_remove(store->cache, number, hash, get->key);
    lockset_read_unlock(context->locks, number);
    logfile_end(context->options.io);
    return status;
}

/* Inline, so that a place that is known costs no call. */
__attribute__((always_inline)) static inline enum kv_status
get_from_file(struct kvstore *store, struct key_place at, const struct get *get)
{
    const struct store_context *context = &store->context;
    if (context->lockless) {
        enum kv_status unlocked;
        if (get_without_lock(context, at, get, &unlocked))
            return unlocked;
    }
    struct lookup lookup;
    uint32_t number = at.file->number;
    lockset_read_lock(context->locks, number);
    const struct generation *generation = at.file->current;
    generation_find(generation, keyhash_index(at.hash), get->key, &lookup);
    enum kv_status status = give_found(context, at.file, generation, &lookup, get);
    lockset_read_unlock(context->locks, number);
    logfile_end(context->options.io);
    return status;
}

/* Gets with a cache, or if a read keeps its key from being evicted. */
__attribute__((noinline)) static enum kv_status
get_counted(struct kvstore *store, struct key_place at, const struct get *get)
{
    enum kv_status status =
        store->cache ? get_cached(store, at, get) : get_from_file(store, at, get);
    if (at.file->share.policy && get->place && (status == KV_OK || status == KV_BUFFER_TOO_SMALL))
        s3fifo_use(at.file->share.policy, keyhash_index(at.hash));
    return status;
}

__attribute__((always_inline)) static inline enum kv_status get_by_locking(struct kvstore *store,
                                                                           const struct get *get)
{
    if (!is_valid_key(get->key))
        return KV_BAD_KEY;
    struct key_place at = key_place(&store->context, get->key);
    return store->reads_count ? get_counted(store, at, get) : get_from_file(store, at, get);
}

enum kv_status kvstore_get(struct kvstore *store, struct kv_slice key, void *buffer,
                           size_t capacity, struct kvstore_entry *entry)
{
    struct buffer_place place = {buffer, capacity};
    struct get get = {key, buffer || capacity > 0 ? place_in_buffer : NULL, &place, entry};
    return get_by_locking(store, &get);
}

enum kv_status kvstore_get_to(struct kvstore *store, struct kv_slice key, kvstore_place place,
                              void *context, struct kvstore_entry *entry)
{
    struct get get = {key, place, context, entry};
    return get_by_locking(store, &get);
}
