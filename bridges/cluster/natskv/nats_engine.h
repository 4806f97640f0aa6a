/*
 * nats_engine: what the files of the engine share.
 */
#ifndef MQKV_NATSKV_NATS_ENGINE_H
#define MQKV_NATSKV_NATS_ENGINE_H

#include <stdatomic.h>

#include "common/time/clock.h"
#include "engine/store_engine.h"
#include "bridges/cluster/natskv/nats_bucket.h"
#include "bridges/cluster/natskv/nats_link.h"

struct key_queues;
struct nats_sweep;

/* The last page of a scan that was full; 0: none was yet. */
struct page_fit {
    _Atomic uint32_t entries;
    _Atomic uint64_t bytes; /* of their keys and values */
};

struct nats_engine {
    struct store_engine base;
    struct nats_link *link;
    struct nats_bucket bucket;
    struct key_queues *queues;
    uint32_t max_value_bytes;
    bool read_any; /* any replica answers reads */
    bool synced;

    _Atomic uint64_t message_number; /* for ids */
    _Atomic uint64_t folded;         /* writes that went into the message of another */
    _Atomic uint64_t conflicts;      /* conditional writes that came too late */
    struct page_fit fits[2];         /* of scans with values, of those of keys only */
    struct shard_look *looks;        /* by shard */
    struct nats_sweep *sweep;        /* NULL: it only reads */
};

/* A call that gets no answer is sent again after this time, and has so long in all, or until the
 * operation's deadline if that comes before. */
#define NATS_AGAIN_MS    2000u
#define NATS_PATIENCE_MS 30000u

/* "$KV.B_3.KEY". */
#define NATS_SUBJECT_BYTES (NATSKV_MAX_KEY_BYTES + NATSKV_MAX_BUCKET_NAME + 32u)

/* Without a deadline, or with one further away, an operation has the engine's patience from now on:
 * who waits for all that is under way, as at the end of a daemon, waits for that at most. */
static inline void nats_bound_deadline(struct engine_operation *operation)
{
    uint64_t last_ms = clock_monotonic_coarse_ms() + NATS_PATIENCE_MS;
    operation->bounded = operation->deadline_ms == 0 || operation->deadline_ms > last_ms;
    if (operation->bounded)
        operation->deadline_ms = last_ms;
}

static inline void nats_finish(struct engine_operation *operation, enum kv_status status,
                               const char *sentence)
{
    operation->status = status;
    operation->sentence = sentence;
    operation->done(operation);
}

#define NATS_NO_QUORUM                                                                        \
    "nothing was done: no server of the cluster answers for this key (more than half of its " \
    "replicas must be up)"

#define NATS_NO_TURN \
    "nothing was done: operations on the same key that came before it took all of the time"

#define NATS_SILENCE \
    "no server of the cluster answered in time: the write may have been applied, or may be yet"

#endif
