/*
 * nats_walk: reads a stretch of a stream from its leader, which gives one message a request: so
 * several walk at once, each through a part of the stretch. What was acknowledged before the walk
 * began is in it, or, if it was written again since, perhaps at or behind the sequence where to go
 * on, and not yet in it: so what walks one after the other find, to the end, has each key that was
 * there all the time.
 */
#ifndef MQKV_NATSKV_NATS_WALK_H
#define MQKV_NATSKV_NATS_WALK_H

#include "bridges/cluster/natskv/nats_engine.h"
#include "bridges/cluster/natskv/nats_entry.h"

struct walked_message {
    struct walked_message *next;
    struct nats_entry entry;
    char subject[];
};

struct nats_walk {
    uint32_t shard;
    uint64_t sequence;    /* where it begins, and then: where to go on */
    uint32_t count;       /* messages there should be about so many in the stretch; at least 1 */
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; no answer until then is a failure */
    uint64_t enough_ms;   /* what is not read by then need not be */

    /* Called once, by any thread, perhaps before nats_walk_begin returns. */
    void (*done)(struct nats_walk *walk);

    /* The outcome: what there is before `sequence`, in that order. KV_NO_SERVER, KV_IO,
     * KV_OVERLOADED, KV_NO_MEMORY: the walk ended before the stretch did. */
    enum kv_status status;
    struct walked_message *messages; /* for nats_walk_free */
    bool is_end;                     /* nothing is behind them; false: there may be nothing */
};

/* The walk stays where it is until it is done. */
void nats_walk_begin(struct nats_engine *engine, struct nats_walk *walk);

/* Frees the messages. */
void nats_walk_free(struct nats_walk *walk);

#endif
