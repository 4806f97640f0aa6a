#include "kvstore/table/bound.h"

#include <stdlib.h>
#include <string.h>

#include "kvstore/eviction/s3fifo.h"
#include "kvstore/table/quota.h"

void bound_update_sum(struct bound_share *share, uint64_t live_bytes)
{
    if (!share->bound || live_bytes == share->counted_bytes)
        return;
    /* modulo 2^64: it may be less */
    atomic_fetch_add_explicit(&share->bound->live_bytes, live_bytes - share->counted_bytes,
                              memory_order_relaxed);
    share->counted_bytes = live_bytes;
}

/* Without eviction it is exact but for writes to other files at the same moment. With it, the
 * writer makes room after the write; if there was nothing to evict, the sum stays above. */
static bool bound_has_room(const struct bound *bound, bool transacting, uint64_t old_bytes,
                           uint64_t new_bytes)
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
    case KVSTORE_EVICT_TTL: /* room is made after the transaction */
        return live_bytes <= max_bytes + (transacting ? max_bytes / KVSTORE_BOUND_RECORD_SHARE : 0);
    default:
        return live_bytes + (new_bytes - old_bytes) <= max_bytes;
    }
}

enum kv_status bound_check(const struct bound_share *share, const struct lookup *lookup,
                           const struct record *record, struct kv_slice value_tail,
                           bool transacting)
{
    if (record->kind == RECORD_DELETE)
        return KV_OK;
    uint64_t old_bytes = lookup->found ? lookup->size_bytes : 0;
    uint64_t new_bytes = record_bytes_in_log(record, record->value.size + value_tail.size);
    if (share->quotas &&
        !quota_table_admits(share->quotas, record->key, !lookup->found, old_bytes, new_bytes))
        return KV_QUOTA;
    if (!share->bound || bound_has_room(share->bound, transacting, old_bytes, new_bytes))
        return KV_OK;
    atomic_fetch_add_explicit(&share->bound->refusals, 1, memory_order_relaxed);
    return KV_FULL;
}

void bound_count_change(struct bound_share *share, uint64_t live_bytes,
                        const struct bound_change *change)
{
    bound_update_sum(share, live_bytes);
    if (share->quotas)
        quota_table_charge(share->quotas, change->key, change->new_bytes - change->old_bytes,
                           (uint64_t)change->is_there - (uint64_t)change->was_there);
    if (!share->policy)
        return;
    if (change->is_there && change->was_there)
        s3fifo_use(share->policy, change->hash);
    else if (change->is_there)
        s3fifo_insert(share->policy, change->hash, change->new_bytes);
    else if (change->was_there)
        s3fifo_forget(share->policy, change->hash);
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

enum kv_status bound_begin(struct bound *bound, struct bound_share *share,
                           struct generation *generation)
{
    if (bound->evict == KVSTORE_EVICT_S3FIFO) {
        share->policy = s3fifo_create();
        if (!share->policy || restore(share->policy, generation->index) != KV_OK)
            return KV_NO_MEMORY;
    }
    share->bound = bound;
    bound_update_sum(share, generation->words->live_bytes);
    if (bound->evict != KVSTORE_EVICT_NONE)
        generation->reserve = &bound->reserve;
    return KV_OK;
}

void bound_end(struct bound_share *share)
{
    s3fifo_free(share->policy);
    share->policy = NULL;
    share->bound = NULL;
}
