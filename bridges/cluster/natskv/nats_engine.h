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
struct shard_turns;

/* How much the last full page of a scan had; 0: there was none yet. */
struct page_fit {
    _Atomic uint32_t entries;
    _Atomic uint64_t bytes; /* bytes of its keys and values */
};

struct nats_engine {
    struct store_engine base;
    struct nats_link *link;
    struct nats_bucket bucket;
    struct key_queues *queues;
    uint32_t max_value_bytes;
    bool read_any; /* any replica answers reads */
    bool synced;

    _Atomic uint64_t message_number; /* counts messages, for their ids */
    _Atomic uint64_t folded;         /* writes that travelled in the message of another */
    _Atomic uint64_t conflicts;      /* conditional writes that others had come before */
    _Atomic uint64_t transactions;   /* batches that were stored */
    struct page_fit fits[2];         /* for scans with values, and for scans of keys only */
    struct shard_look *looks;        /* one for each shard */
    struct shard_turns *turns;       /* of transactions; one for each shard */
    struct nats_sweep *sweep;        /* NULL: the engine only reads */
};

/* A call that gets no answer is sent again after NATS_AGAIN_MS, until NATS_PATIENCE_MS are over, or
 * the operation's deadline if that comes before. */
#define NATS_AGAIN_MS    2000u
#define NATS_PATIENCE_MS 30000u

/* "$KV.B_3.KEY". */
#define NATS_SUBJECT_BYTES (NATSKV_MAX_KEY_BYTES + NATSKV_MAX_BUCKET_NAME + 32u)

/* Bounds the operation by the engine's patience, counted from now: a caller that waits for all that
 * is under way, such as a daemon that ends, waits no longer. */
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

#define NATS_LONG_KEY                                                                     \
    "the key is too long for the engine nats: 3,800 bytes, where each byte but letters, " \
    "digits, '_', '/' and '-' counts three times"

#define NATS_NOT_SYNCED                                                                        \
    "the engine nats does not know when its servers sync: say --nats-sync always if they all " \
    "have sync_interval: always"

#define NATS_SILENCE \
    "no server of the cluster answered in time: the write may have been applied, or may be yet"

#endif
