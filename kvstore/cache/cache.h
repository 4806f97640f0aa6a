/*
 * cache: keeps values that were read lately in memory, in front of the data files: a bounded number
 * of bytes (`--cache`). An entry is a key with its value, version and expiry.
 *
 * Eviction is S3-FIFO (kvstore/eviction/s3fifo_rules.h): a hit changes a counter of two bits and no
 * order. It was chosen by tests/bench/bench_cache_policy.c; hit ratios over 100,000 keys, 1,000,000
 * requests:
 *
 *                                      cached     LRU   CLOCK   SIEVE S3-FIFO
 *   zipfian (0.99)                       0.1 %  0.274   0.287   0.400   0.397
 *                                          1 %  0.490   0.501   0.586   0.585
 *                                         10 %  0.726   0.735   0.776   0.778
 *   the same, every fifth request        0.1 %  0.201   0.211   0.319   0.319
 *   of a walk through all keys             1 %  0.368   0.379   0.466   0.471
 *                                         10 %  0.565   0.574   0.629   0.633
 *   zipfian, the popular keys change     0.1 %  0.274   0.287   0.397   0.396
 *   every 200,000 requests                 1 %  0.489   0.501   0.548   0.576
 *                                         10 %  0.721   0.727   0.671   0.732
 *
 * The bytes are divided among shards, one for each data file, or for several where a data file's
 * part would be less than CACHE_SHARD_MIN_BYTES. Keys, values, the fields of each entry, an
 * allowance for the allocator, the hash table and the ghosts count. An entry larger than a
 * CACHE_ENTRY_SHAREth of its shard is not kept: it would push out too many others.
 *
 * Threads: each shard has a lock, taken last (ARCHITECTURE.md). cache_put and cache_remove are
 * called with the lock of the data file held: a reader, which shares the lock, puts what it has
 * just read; a writer, which has the lock alone, removes the entry that it is about to replace,
 * before the index shows the new one. So the cache has what the file says, and a reader that has
 * seen a write in the index, with the lock or without (also in another process: kvstore/shared),
 * finds nothing older in the cache from then on. cache_get needs no lock of the file: a reader that
 * finds nothing waits for the writer. (A reader that takes no lock at all, under optimistic
 * locking, may therefore call cache_get, but not cache_put.)
 */
#ifndef MQKV_KVSTORE_CACHE_CACHE_H
#define MQKV_KVSTORE_CACHE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/record.h"

struct cache;

#define CACHE_SHARD_MIN_BYTES (UINT64_C(64) << 10)
#define CACHE_ENTRY_SHARE     8u

/* Makes a cache of `bytes` in all, CACHE_SHARD_MIN_BYTES or more, for `datafiles` files. NULL: out
 * of memory. */
struct cache *cache_create(uint64_t bytes, uint32_t datafiles, enum kvstore_allocator allocator);
void cache_free(struct cache *cache);

/* kvstore_get_to of `key`, whose keyhash_index is `hash`, from the cache: the result, KV_OK or
 * KV_BUFFER_TOO_SMALL, is in *status. False: the cache has no entry. Counts a hit or a miss. Calls
 * `place` under the shard's lock. */
bool cache_get(struct cache *cache, uint32_t file, uint32_t hash, struct kv_slice key,
               kvstore_place place, void *context, struct kvstore_entry *entry,
               enum kv_status *status);

/* Keeps a copy of `record`, which is verified and alive, unless it is too large or there already,
 * or memory is short. Holds: the file's lock, for reading at least. */
void cache_put(struct cache *cache, uint32_t file, uint32_t hash, const struct record *record);

/* Removes the entry of `key`, if there is one. Holds: the file's lock for writing. */
void cache_remove(struct cache *cache, uint32_t file, uint32_t hash, struct kv_slice key);

/* Before lookups of keys in one data file: takes those hashes out of `hashes` of which the cache
 * has an entry (perhaps of another key with the same hash: this is only a hint), keeps the order of
 * the rest and returns how many are left. */
size_t cache_leave_out(struct cache *cache, uint32_t file, uint32_t *hashes, size_t count);

/* Sets *statistics to the sums over the shards. */
void cache_statistics(struct cache *cache, struct kvstore_cache_statistics *statistics);

#endif
