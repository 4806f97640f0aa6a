#include "kvstore/table/bound.h"

#include <stdlib.h>

#include "kvstore/eviction/s3fifo.h"

void bound_settle(struct datafile *file)
{
    uint64_t bytes = file->current->words->live_bytes;
    if (!file->bound || bytes == file->bound_bytes)
        return;
    /* modulo 2^64: it may be less */
    atomic_fetch_add_explicit(&file->bound->live_bytes, bytes - file->bound_bytes,
                              memory_order_relaxed);
    file->bound_bytes = bytes;
}

/* Without eviction it is exact but for writes to other files at the same moment. With it, the
 * writer makes room after the write; if there was nothing to evict, the sum stays above. */
static bool has_room(const struct bound *bound, uint64_t old_bytes, uint64_t new_bytes)
{
    uint64_t max_bytes = atomic_load_explicit(&bound->max_bytes, memory_order_relaxed);
    uint64_t live_bytes = atomic_load_explicit(&bound->live_bytes, memory_order_relaxed);
    if (new_bytes <= old_bytes)
        return true;
    if (bound->evict != KVSTORE_EVICT_NONE && new_bytes > max_bytes / KVSTORE_BOUND_RECORD_SHARE)
        return false;
    switch (bound->evict) {
    case KVSTORE_EVICT_S3FIFO:
        return true;
    case KVSTORE_EVICT_TTL:
        return live_bytes <= max_bytes;
    default:
        return live_bytes + (new_bytes - old_bytes) <= max_bytes;
    }
}

bool bound_admits(const struct datafile *file, const struct lookup *lookup,
                  const struct record *record, struct kv_slice value_tail)
{
    if (record->kind == RECORD_DELETE)
        return true;
    uint64_t size_bytes =
        record_size(record->key.size, record->value.size + value_tail.size, record->expiry_ms != 0);
    if (has_room(file->bound, lookup->found ? lookup->size_bytes : 0, size_bytes))
        return true;
    atomic_fetch_add_explicit(&file->bound->refusals, 1, memory_order_relaxed);
    return false;
}

void bound_note(struct datafile *file, uint32_t hash, enum record_kind kind, bool was_there,
                uint64_t size_bytes)
{
    bound_settle(file);
    if (!file->policy)
        return;
    if (kind == RECORD_PUT && was_there)
        s3fifo_use(file->policy, hash);
    else if (kind == RECORD_PUT)
        s3fifo_insert(file->policy, hash, size_bytes);
    else if (was_there)
        s3fifo_forget(file->policy, hash);
}

static int compare_items(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* All keys in the order of their records: the place in units of 8 bytes, then the hash. Returns how
 * many. */
static uint64_t collect_by_age(const struct index *index, uint64_t *ordered, uint64_t capacity)
{
    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t count = 0, hash = 0;
    while (hash < INDEX_HASH_END) {
        size_t found = index_collect(index, hash, items, INDEX_SEGMENT_SLOTS, &hash);
        for (size_t i = 0; i < found && count < capacity; i++)
            ordered[count++] = items[i].offset_bytes / SEGMENT_OFFSET_UNIT << 32 | items[i].hash;
    }
    qsort(ordered, count, sizeof *ordered, compare_items);
    return count;
}

static enum kv_status restore(struct s3fifo *policy, const struct index *index)
{
    uint64_t keys = index_count(index);
    uint64_t *ordered = malloc((keys + 1) * sizeof *ordered);
    if (!ordered)
        return KV_NO_MEMORY;
    uint64_t count = collect_by_age(index, ordered, keys);
    for (uint64_t i = 0; i < count; i++)
        s3fifo_restore(policy, (uint32_t)ordered[i]);
    free(ordered);
    return KV_OK;
}

enum kv_status bound_begin(struct bound *bound, struct datafile *file)
{
    if (bound->evict == KVSTORE_EVICT_S3FIFO) {
        file->policy = s3fifo_create();
        if (!file->policy || restore(file->policy, file->current->index) != KV_OK)
            return KV_NO_MEMORY;
    }
    file->bound = bound;
    bound_settle(file);
    return KV_OK;
}

void bound_end(struct datafile *file)
{
    s3fifo_free(file->policy);
    file->policy = NULL;
    file->bound = NULL;
}
