/*
 * nats_look: what the servers tell of the streams of a bucket: how much they hold, and on how many
 * servers they lie, which may be changed at any time.
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_LOOK_H
#define MQKV_NATSKV_NATS_LOOK_H

#include "bridges/cluster/natskv/nats_engine.h"

/* Of one stream. */
struct nats_holdings {
    uint64_t messages; /* keys, tombstones, and what has expired but was not removed yet */
    uint64_t bytes;    /* of each replica */
    uint64_t first_sequence, last_sequence; /* 0: not looked at yet */
};

/* False: out of memory. */
bool nats_look_create(struct nats_engine *engine);

/* Before the link is closed; waits for looks that are under way. */
void nats_look_free(struct nats_engine *engine);

/* Looks at a stream again if its last look is a second ago; what comes of it is known later. */
void nats_look_again(struct nats_engine *engine, uint32_t shard);

/* What was found last. */
void nats_look_tell(const struct nats_engine *engine, uint32_t shard,
                    struct nats_holdings *holdings);

/* Looks at all streams, and waits a moment for the answers; not if the last looks had none. Tells
 * the sums. */
void nats_look_sum(struct nats_engine *engine, struct nats_holdings *sum);

/* The stream was last seen on so many servers. */
uint32_t nats_look_replicas(const struct nats_engine *engine, uint32_t shard);

#endif
