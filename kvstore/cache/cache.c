#include "kvstore/cache/cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/memory/copy.h"
#include "mqkv/allocator.h"
#include "kvstore/core/lock.h"
#include "kvstore/core/variants.h"
#include "kvstore/eviction/s3fifo_rules.h"

/* Bytes of a shard for each bucket of the hash table, and for each place of a ghost. */
#define BYTES_PER_BUCKET 256u

/* Bytes that an allocator adds to a block, rounding included, on average. */
#define ALLOCATION_BYTES 16u

enum queue_name { SMALL, MAIN, QUEUES };

/* Key, then value follow. */
struct entry {
    struct entry *next; /* in the bucket */
    struct entry *older, *newer;
    uint64_t version;
    uint64_t expiry_ms;
    uint32_t hash;
    uint32_t value_bytes;
    uint16_t key_bytes;
    uint8_t queue;
    uint8_t
        uses; /* since it came into its queue or was last spared there; up to S3FIFO_MOST_USES */
    uint8_t bytes[];
};

struct queue {
    struct entry *oldest, *newest;
    uint64_t bytes;
    uint64_t count;
};

/* Covered by the lock of its number. */
struct shard {
    const struct allocator *allocator; /* of the entries; the same in every shard */
    struct entry **buckets;
    uint32_t bucket_mask;
    struct s3fifo_ghosts ghosts; /* as many places as buckets */
    uint64_t max_bytes;          /* of the entries */
    struct queue queues[QUEUES];
    uint64_t hits, misses, evictions;
};

struct cache {
    uint64_t max_bytes;
    uint64_t table_bytes;
    uint32_t shard_count;
    struct lockset *locks;
    struct shard shards[];
};

/* NULL: the library has no such allocator. */
static const struct allocator *find_allocator(enum kvstore_allocator number)
{
    if (number == KVSTORE_ALLOCATOR_SYSTEM)
        return &kv_allocator_system;
    return (unsigned)number < KVSTORE_ALLOCATOR_COUNT ? store_variants.allocators[number] : NULL;
}

const char *kvstore_allocator_name(enum kvstore_allocator number)
{
    const struct allocator *allocator = find_allocator(number);
    return allocator ? allocator->name : NULL;
}

/* Making and ending ---------------------------------------------------------------------------- */

static uint32_t power_of_two_up_to(uint64_t limit)
{
    uint32_t power = 1;
    while (power < UINT32_C(1) << 30 && (uint64_t)power * 2 <= limit)
        power *= 2;
    return power;
}

static bool init_shard(struct shard *shard, uint64_t bytes)
{
    uint32_t buckets = power_of_two_up_to(bytes / BYTES_PER_BUCKET);
    shard->bucket_mask = buckets - 1;
    shard->buckets = calloc(buckets, sizeof(struct entry *));
    if (!shard->buckets || !s3fifo_ghosts_begin(&shard->ghosts, buckets))
        return false;
    shard->max_bytes =
        bytes - buckets * sizeof *shard->buckets - s3fifo_ghosts_memory_bytes(&shard->ghosts);
    return true;
}

struct cache *cache_create(uint64_t bytes, uint32_t datafiles, enum kvstore_allocator allocator)
{
    uint64_t shard_count = bytes / CACHE_SHARD_MIN_BYTES;
    if (shard_count > datafiles)
        shard_count = datafiles;
    struct cache *cache = calloc(1, sizeof *cache + shard_count * sizeof(struct shard));
    if (!cache)
        return NULL;
    cache->max_bytes = bytes;
    cache->locks = lockset_create_mutexes((uint32_t)shard_count);
    bool made = cache->locks;
    while (made && cache->shard_count < shard_count) {
        struct shard *shard = &cache->shards[cache->shard_count++];
        shard->allocator = find_allocator(allocator);
        made = init_shard(shard, bytes / shard_count);
        cache->table_bytes += bytes / shard_count - shard->max_bytes;
    }
    if (made)
        return cache;
    cache_free(cache);
    return NULL;
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    for (uint32_t i = 0; i < cache->shard_count; i++) {
        struct shard *shard = &cache->shards[i];
        for (int queue = 0; queue < QUEUES; queue++) {
            for (struct entry *entry = shard->queues[queue].oldest, *newer; entry; entry = newer) {
                newer = entry->newer;
                shard->allocator->release(entry);
            }
        }
        free(shard->buckets);
        s3fifo_ghosts_end(&shard->ghosts);
    }
    lockset_free(cache->locks);
    free(cache);
}

/* Entries. The caller of each function holds the shard's lock. --------------------------------- */

static uint64_t cost_of(uint64_t key_bytes, uint64_t value_bytes)
{
    return sizeof(struct entry) + key_bytes + value_bytes + ALLOCATION_BYTES;
}

static uint64_t entry_cost(const struct entry *entry)
{
    return cost_of(entry->key_bytes, entry->value_bytes);
}

/* Returns where the pointer to the key's entry stands in its chain; the pointer is NULL if there is
 * none. */
static struct entry **find_cached(const struct shard *shard, uint32_t hash, struct kv_slice key)
{
    struct entry **at = &shard->buckets[hash & shard->bucket_mask];
    while (*at &&
           ((*at)->hash != hash || !kv_slice_equal(kv_slice((*at)->bytes, (*at)->key_bytes), key)))
        at = &(*at)->next;
    return at;
}

static void enqueue_entry(struct shard *shard, struct entry *entry, enum queue_name name)
{
    struct queue *queue = &shard->queues[name];
    entry->queue = (uint8_t)name;
    entry->uses = 0;
    entry->newer = NULL;
    entry->older = queue->newest;
    *(queue->newest ? &queue->newest->newer : &queue->oldest) = entry;
    queue->newest = entry;
    queue->bytes += entry_cost(entry);
    queue->count++;
}

static void dequeue_entry(struct shard *shard, struct entry *entry)
{
    struct queue *queue = &shard->queues[entry->queue];
    *(entry->older ? &entry->older->newer : &queue->oldest) = entry->newer;
    *(entry->newer ? &entry->newer->older : &queue->newest) = entry->older;
    KV_ASSERT(queue->count > 0 && queue->bytes >= entry_cost(entry));
    queue->bytes -= entry_cost(entry);
    queue->count--;
}

/* Takes the entry that *at points to out of the shard. */
static void drop_entry(struct shard *shard, struct entry **at)
{
    struct entry *entry = *at;
    *at = entry->next;
    dequeue_entry(shard, entry);
    shard->allocator->release(entry);
}

/* Moves the oldest entry of one of the queues on: out, to the main queue, or to its end. */
static void move_oldest_entry(struct shard *shard)
{
    struct queue *small = &shard->queues[SMALL], *main = &shard->queues[MAIN];
    bool from_small = s3fifo_takes_from_small(small->bytes, main->count, shard->max_bytes);
    struct entry *entry = from_small ? small->oldest : main->oldest;
    uint8_t uses = entry->uses;
    if (s3fifo_spares(from_small, uses)) {
        dequeue_entry(shard, entry);
        enqueue_entry(shard, entry, MAIN);
        entry->uses = (uint8_t)s3fifo_uses_left(from_small, uses);
        return;
    }
    if (from_small)
        s3fifo_ghosts_leave(&shard->ghosts, entry->hash, main->count);
    struct entry **at = &shard->buckets[entry->hash & shard->bucket_mask];
    while (*at != entry) {
        KV_ASSERT(*at);
        at = &(*at)->next;
    }
    drop_entry(shard, at);
    shard->evictions++;
}

/* Frees room for `bytes`, which is less than the shard has. Ends, since each entry is spared at
 * most S3FIFO_MOST_USES + 1 times. */
static void make_shard_room(struct shard *shard, uint64_t bytes)
{
    KV_ASSERT(bytes <= shard->max_bytes);
    while (shard->queues[SMALL].bytes + shard->queues[MAIN].bytes + bytes > shard->max_bytes)
        move_oldest_entry(shard);
}

static struct entry *entry_of(const struct shard *shard, uint32_t hash, const struct record *record)
{
    struct entry *entry =
        shard->allocator->allocate(sizeof *entry + record->key.size + record->value.size);
    if (!entry)
        return NULL;
    entry->hash = hash;
    entry->version = record->version;
    entry->expiry_ms = record->expiry_ms;
    entry->key_bytes = (uint16_t)record->key.size;
    entry->value_bytes = (uint32_t)record->value.size;
    memcpy(entry->bytes, record->key.data, record->key.size);
    copy_bytes(entry->bytes + record->key.size, record->value.data, record->value.size);
    return entry;
}

/* Calls ---------------------------------------------------------------------------------------- */

static struct shard *lock_shard(struct cache *cache, uint32_t file, uint32_t *number)
{
    *number = file % cache->shard_count;
    lockset_write_lock(cache->locks, *number);
    return &cache->shards[*number];
}

/* Gives the entry to the caller. False: it has expired. */
static bool give_cached(const struct entry *cached, kvstore_place place, void *context,
                        struct kvstore_entry *entry, enum kv_status *status)
{
    struct record record = {.version = cached->version,
                            .expiry_ms = cached->expiry_ms,
                            .value =
                                kv_slice(cached->bytes + cached->key_bytes, cached->value_bytes)};
    if (!record_is_live(&record))
        return false;
    *status = KV_OK;
    if (place)
        *status = record_give(&record, place, context, entry);
    else
        record_describe(&record, entry);
    return true;
}

bool cache_get(struct cache *cache, uint32_t file, uint32_t hash, struct kv_slice key,
               kvstore_place place, void *context, struct kvstore_entry *entry,
               enum kv_status *status)
{
    uint32_t number;
    struct shard *shard = lock_shard(cache, file, &number);
    struct entry **at = find_cached(shard, hash, key);
    bool hit = *at && give_cached(*at, place, context, entry, status);
    if (hit)
        (*at)->uses += (*at)->uses < S3FIFO_MOST_USES;
    else if (*at)
        drop_entry(shard, at);
    shard->hits += hit;
    shard->misses += !hit;
    lockset_write_unlock(cache->locks, number);
    return hit;
}

/* Holds: the shard's lock. */
static void shard_put(struct shard *shard, struct entry *entry)
{
    struct kv_slice key = kv_slice(entry->bytes, entry->key_bytes);
    if (*find_cached(shard, entry->hash, key)) { /* another reader was faster */
        shard->allocator->release(entry);
        return;
    }
    bool comes_back = s3fifo_ghosts_has(&shard->ghosts, entry->hash);
    make_shard_room(shard, entry_cost(entry));
    struct entry **bucket = &shard->buckets[entry->hash & shard->bucket_mask];
    entry->next = *bucket;
    *bucket = entry;
    enqueue_entry(shard, entry, comes_back ? MAIN : SMALL);
}

void cache_put(struct cache *cache, uint32_t file, uint32_t hash, const struct record *record)
{
    uint32_t number = file % cache->shard_count;
    if (cost_of(record->key.size, record->value.size) >
        cache->shards[number].max_bytes / CACHE_ENTRY_SHARE)
        return;
    struct entry *entry = entry_of(&cache->shards[number], hash, record);
    if (!entry)
        return;
    struct shard *shard = lock_shard(cache, file, &number);
    shard_put(shard, entry);
    lockset_write_unlock(cache->locks, number);
}

void cache_remove(struct cache *cache, uint32_t file, uint32_t hash, struct kv_slice key)
{
    uint32_t number;
    struct shard *shard = lock_shard(cache, file, &number);
    struct entry **at = find_cached(shard, hash, key);
    if (*at)
        drop_entry(shard, at);
    lockset_write_unlock(cache->locks, number);
}

size_t cache_leave_out(struct cache *cache, uint32_t file, uint32_t *hashes, size_t count)
{
    uint32_t number;
    size_t left = 0;
    const struct shard *shard = lock_shard(cache, file, &number);
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&shard->buckets[hashes[i] & shard->bucket_mask]);
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(shard->buckets[hashes[i] & shard->bucket_mask]);
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = shard->buckets[hashes[i] & shard->bucket_mask];
        while (entry && entry->hash != hashes[i])
            entry = entry->next;
        if (!entry)
            hashes[left++] = hashes[i];
    }
    lockset_write_unlock(cache->locks, number);
    return left;
}

void cache_statistics(struct cache *cache, struct kvstore_cache_statistics *statistics)
{
    *statistics = (struct kvstore_cache_statistics){.max_bytes = cache->max_bytes,
                                                    .used_bytes = cache->table_bytes};
    for (uint32_t i = 0; i < cache->shard_count; i++) {
        uint32_t number;
        const struct shard *shard = lock_shard(cache, i, &number);
        statistics->hits += shard->hits;
        statistics->misses += shard->misses;
        statistics->evictions += shard->evictions;
        for (int queue = 0; queue < QUEUES; queue++) {
            statistics->entries += shard->queues[queue].count;
            statistics->used_bytes += shard->queues[queue].bytes;
        }
        lockset_write_unlock(cache->locks, number);
    }
    struct allocator_statistics memory;
    cache->shards[0].allocator->statistics(&memory);
    statistics->segment_bytes = memory.segment_bytes;
    statistics->segment_free_bytes = memory.free_bytes;
}
