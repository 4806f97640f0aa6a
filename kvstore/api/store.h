/*
 * store: a store as its calls see it: the context, which everything below them shares, and the
 * parts that work with it. Only kvstore/api/ knows all of them.
 *
 * Threads: those of the caller, the sync threads (sync.h), the compactor (compact.h) and the
 * sweeper (sweep.h). Lock order: ARCHITECTURE.md.
 */
#ifndef MQKV_KVSTORE_API_STORE_H
#define MQKV_KVSTORE_API_STORE_H

#include <stdatomic.h>
#include <stdint.h>

#include "kvstore/api/shared_index.h"
#include "kvstore/core/context.h"
#include "kvstore/order/key_tree.h"
#include "kvstore/table/bound.h"
#include "kvstore/table/datafile.h"
#include "kvstore/table/quota.h"

struct cache;
struct compaction_queue;
struct compactor;
struct holds;
struct lockfile;
struct order_filler;
struct past_logs;
struct sweeper;
struct sync;

/* The last statistics of a data file. */
struct told_file {
    struct kvstore_file_statistics statistics; /* like the next two guarded by told_lock */
    struct key_tree_size order;
    uint64_t told_ms; /* clock_monotonic_coarse_ms */
    _Atomic uint64_t policy_bytes;
};

struct kvstore {
    struct store_context context;
    struct shared_index shared_index;
    struct lockfile *lockfile;
    struct cache *cache;         /* NULL: none */
    bool reads_count;            /* there is a cache, or a policy that counts reads; constant */
    struct bound bound;          /* without max_bytes: none, and no file knows of it */
    pthread_mutex_t room_lock;   /* evict_for_room: one thread at a time */
    uint64_t room_not_before_ns; /* guarded by room_lock */
    _Atomic uint64_t rooms_made;
    pthread_mutex_t quota_lock;
    struct quota_table *quotas; /* guarded by quota_lock; NULL: none */
    pthread_mutex_t told_lock;
    struct told_file *told;             /* one of each data file */
    _Atomic uint64_t waited_in_vain_ms; /* for a file's lock (store_facts.c); 0: never */
    /* Synchronised by themselves; NULL if the store is read-only. */
    struct sync *sync;
    struct compaction_queue *compactions;
    struct compactor *compactor;
    struct sweeper *sweeper;
    struct order_filler *order_filler; /* also NULL if the store is not ordered */
    struct holds *holds;               /* also of a store that is read-only */
    bool may_have_commit_log;          /* it was opened with KVSTORE_SYNC_ALWAYS */
    bool was_forked; /* guarded by the locks of all files: no extent gets another content */
    struct past_logs *past;
    /* clock_monotonic_coarse_ms of the last line in the log about a write without room; 0: none. */
    _Atomic uint64_t no_space_logged_ms;
};

/* The data file and the hash to which a key belongs. */
struct key_place {
    struct datafile *file;
    uint64_t hash; /* all 64 bits */
};

static inline struct key_place key_place(const struct store_context *context, struct kv_slice key)
{
    uint32_t number = keyhash_file(context->seed, key, context->datafiles);
    struct key_place place = {&context->files[number], keyhash(&context->hash_key, key)};
    return place;
}

static inline bool is_valid_key(struct kv_slice key)
{
    return key.size >= 1 && key.size <= KVSTORE_MAX_KEY_BYTES;
}

#endif
