/*
 * nats_walk: reads a stretch of a stream from its leader, which gives one message a request: so
 * several walkers read at once, each a part of the stretch. The walk finds each message that was
 * acknowledged before it began, unless that was written again since, and then lies at or behind the
 * sequence where the next walk begins. So walks one after the other, up to the end, find each key
 * that was there all the time.
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
    uint64_t sequence;    /* where the walk begins; afterwards where the next one does */
    uint32_t count;       /* about how many messages the stretch should have; at least 1 */
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; without an answer until then the walk fails */
    uint64_t enough_ms;   /* what is not read by then is left to the next walk */

    /* Called once, by any thread, perhaps before nats_walk_begin returns. */
    void (*done)(struct nats_walk *walk);

    /* The outcome: the messages before `sequence`, in that order. KV_NO_SERVER, KV_IO,
     * KV_OVERLOADED, KV_NO_MEMORY: the walk ended before the stretch did. */
    enum kv_status status;
    struct walked_message *messages; /* nats_walk_free frees them */
    bool is_end; /* nothing is behind the messages; false: there may be something */
};

/* Begins the walk, which stays where it is until it is done. */
void nats_walk_begin(struct nats_engine *engine, struct nats_walk *walk);

/* Frees the messages. */
void nats_walk_free(struct nats_walk *walk);

#endif
