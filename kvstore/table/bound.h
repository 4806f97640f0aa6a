/*
 * bound: the most bytes that the live records of a store may have together, and how much of that
 * they have. Each data file adds what it has gained or lost since it was counted last.
 *
 * Where entries can be evicted, it is no more than the file system has room for (disk_fit.h).
 *
 * A file with a bound and with eviction has a policy too, where it is S3-FIFO: the functions below
 * tell it which keys come and go.
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
    _Atomic uint64_t asked_bytes; /* by the options */
    _Atomic uint64_t max_bytes;   /* the same, or what fits */
    _Atomic uint64_t live_bytes;  /* with TTL and S3FIFO above max_bytes for a moment */
    _Atomic uint64_t evictions, evicted_bytes, refusals;
    struct copy_reserve reserve;
};

/* A data file's share in it; guarded by the file's lock, but `bound` and `policy` are constant. */
struct bound_share {
    struct bound *bound;        /* NULL: the store has none */
    uint64_t counted_bytes;     /* of the file's live bytes, in the bound's */
    struct s3fifo *policy;      /* which key is evicted next; NULL: see bound */
    struct quota_table *quotas; /* what the file charges, too (quota.h); NULL: none */
};

/* Whether the functions below are to be told of writes. */
static inline bool bound_is_told(const struct bound_share *share)
{
    return share->bound || share->quotas;
}

static inline bool bound_is_exceeded(const struct bound *bound)
{
    return atomic_load_explicit(&bound->live_bytes, memory_order_relaxed) >
           atomic_load_explicit(&bound->max_bytes, memory_order_relaxed);
}

/* Brings the sum up to date with the file's live bytes. Nothing without a bound. */
void bound_settle(struct bound_share *share, uint64_t live_bytes);

/* Whether the record may be written; `lookup` is of its key. KV_OK, KV_FULL, KV_QUOTA: counted. */
enum kv_status bound_check(const struct bound_share *share, const struct lookup *lookup,
                           const struct record *record, struct kv_slice value_tail);

/* What has become of a key. */
struct bound_change {
    struct kv_slice key;
    uint32_t hash;
    bool was_there, is_there;
    uint64_t old_bytes, new_bytes; /* of its records, 0 where it was or is not there */
};

/* Counts a change after which the file has so many live bytes. bound_is_told. */
void bound_note(struct bound_share *share, uint64_t live_bytes, const struct bound_change *change);

/* Gives the file a share in the bound, and the policy that goes with it, which is told of all keys
 * of its generation: those whose records are older in the log count as older. KV_OK,
 * KV_NO_MEMORY. */
enum kv_status bound_begin(struct bound *bound, struct bound_share *share,
                           struct generation *generation);

/* Frees the policy. */
void bound_end(struct bound_share *share);

#endif
