/*
 * nats_key_run: carries out the operations of a run: one read for reads; for writes a read if it is
 * needed, and one write on condition that nothing has changed since.
 */
#ifndef MQKV_NATSKV_NATS_KEY_RUN_H
#define MQKV_NATSKV_NATS_KEY_RUN_H

#include "bridges/cluster/natskv/nats_engine.h"
#include "bridges/cluster/natskv/nats_entry.h"
#include "bridges/cluster/natskv/nats_rewrite.h"

/* The operations on one key that are under way or wait. It exists as long as there are any. One
 * thread at a time works on it: the one that brings its last answer. */
struct key_queue {
    struct key_queue *next; /* the next in the chain */
    struct key_queues *queues;
    struct nats_engine *engine;
    uint64_t hash;
    uint32_t shard;
    struct engine_operation *first, *last; /* they wait; covered by the lock of `queues` */

    /* under way: */
    struct engine_operation *run;
    unsigned run_count;
    bool reads;
    bool direct; /* any replica was asked for the entry */
    uint64_t deadline_ms;
    struct link_call call;
    struct nats_entry entry; /* as the read found it */
    struct nats_rewrite rewrite;
    bool conditional;  /* the write is conditional */
    uint64_t expected; /* the sequence that a conditional write expects */
    bool blind;        /* the entry was not read */
    bool doubtful;     /* an earlier try of this write may have been applied */
    unsigned tries;    /* tries that failed because others wrote before */
    char message_id[NATS_MESSAGE_ID_BYTES];

    /* Called when the run is over and its operations are done, no lock held. */
    void (*over)(struct key_queue *queue);

    char subject[];
};

/* Carries out queue->run, perhaps until after the call returns; the queue may not exist any more
 * then. */
void nats_key_run_begin(struct key_queue *queue);

#endif
