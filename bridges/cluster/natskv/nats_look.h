/*
 * nats_look: what the servers say of the streams of a bucket: how much they hold, and on how many
 * servers, which may be changed at any time.
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_LOOK_H
#define MQKV_NATSKV_NATS_LOOK_H

#include "bridges/cluster/natskv/nats_engine.h"

/* What one stream holds. */
struct nats_holdings {
    uint64_t messages; /* keys, tombstones, and expired entries that were not removed yet */
    uint64_t bytes;    /* in each replica */
    uint64_t first_sequence, last_sequence; /* 0: not known yet */
};

/* Starts without any figures. False: out of memory. */
bool nats_look_create(struct nats_engine *engine);

/* Waits for looks that are under way, and frees all. Called before the link is closed. */
void nats_look_free(struct nats_engine *engine);

/* Looks at a stream again if its last look is a second ago; the result is known later. */
void nats_look_again(struct nats_engine *engine, uint32_t shard);

/* Returns what the last look found. */
void nats_look_tell(const struct nats_engine *engine, uint32_t shard,
                    struct nats_holdings *holdings);

/* Looks at all streams, waits a moment for the answers (unless the last looks had none), and
 * returns the sums. */
void nats_look_sum(struct nats_engine *engine, struct nats_holdings *sum);

/* Returns on how many servers the stream was last seen. */
uint32_t nats_look_replicas(const struct nats_engine *engine, uint32_t shard);

#endif
