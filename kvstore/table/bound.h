/*
 * bound: the most bytes that the live records of a store may have together, and how many they have.
 * Each data file adds what it has gained or lost since it was counted last.
 *
 * Where entries can be evicted, the bound is no more than the file system has room for
 * (disk_fit.h).
 *
 * With eviction by S3-FIFO each data file has a policy too: the functions below tell it which keys
 * come and go.
 *
 * Threads: any; the functions hold the file's lock for writing.
 */
#ifndef MQKV_KVSTORE_TABLE_BOUND_H
#define MQKV_KVSTORE_TABLE_BOUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvstore/table/generation.h"

struct quota_table;
struct s3fifo;

struct bound {
    enum kvstore_evict evict;     /* constant */
    _Atomic uint64_t asked_bytes; /* the bound that the options ask for */
    _Atomic uint64_t max_bytes;   /* the same, or what fits on the disk if that is less */
    _Atomic uint64_t live_bytes;  /* with TTL and S3FIFO for a moment above max_bytes */
    _Atomic uint64_t evictions, evicted_bytes, refusals;
    struct copy_reserve reserve;
};

/* A data file's share in the bound. The file's lock covers it; `bound` and `policy` are constant.
 * */
struct bound_share {
    struct bound *bound;        /* NULL: the store has none */
    uint64_t counted_bytes;     /* the file's part in the bound's live_bytes */
    struct s3fifo *policy;      /* says which key is evicted next; NULL: not S3FIFO */
    struct quota_table *quotas; /* quotas that the file charges (quota.h); NULL: none */
};

/* Returns true if the functions below must be told of writes. */
static inline bool bound_is_told(const struct bound_share *share)
{
    return share->bound || share->quotas;
}

static inline bool bound_is_exceeded(const struct bound *bound)
{
    return atomic_load_explicit(&bound->live_bytes, memory_order_relaxed) >
           atomic_load_explicit(&bound->max_bytes, memory_order_relaxed);
}

/* Brings the bound's sum up to date with the file's `live_bytes`. Does nothing without a bound. */
void bound_update_sum(struct bound_share *share, uint64_t live_bytes);

/* Whether `record`, whose value continues in value_tail, may be written; `lookup` is of its key.
 * `transacting`: as one of several of a transaction, which may take the store above the bound by as
 * much as one record where there is eviction. KV_OK; KV_FULL or KV_QUOTA, which are counted. */
enum kv_status bound_check(const struct bound_share *share, const struct lookup *lookup,
                           const struct record *record, struct kv_slice value_tail,
                           bool transacting);

/* Counts a KV_FULL no more, after which the write is tried again. */
static inline void bound_forget_refusal(struct bound *bound)
{
    atomic_fetch_sub_explicit(&bound->refusals, 1, memory_order_relaxed);
}

/* How a write has changed a key's entry. */
struct bound_change {
    struct kv_slice key;
    uint32_t hash;
    bool was_there, is_there;
    uint64_t old_bytes, new_bytes; /* of its records; 0 where there was or is no entry */
};

/* Counts `change`, after which the file has `live_bytes`. For a file of which bound_is_told. */
void bound_count_change(struct bound_share *share, uint64_t live_bytes,
                        const struct bound_change *change);

/* Gives a data file a share in `bound`, and its policy, which is told of all keys of `generation`:
 * keys whose records come earlier in the log count as older. KV_OK, KV_NO_MEMORY. */
enum kv_status bound_begin(struct bound *bound, struct bound_share *share,
                           struct generation *generation);

/* Frees the policy. */
void bound_end(struct bound_share *share);

#endif
