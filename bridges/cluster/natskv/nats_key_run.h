/*
 * nats_key_run: how the operations of a turn are carried out: one read for reads; for writes a
 * read where it is needed, and one write on condition that nothing has changed since.
 */
#ifndef MQKV_NATSKV_NATS_KEY_RUN_H
#define MQKV_NATSKV_NATS_KEY_RUN_H

#include "bridges/cluster/natskv/nats_engine.h"
#include "bridges/cluster/natskv/nats_entry.h"
#include "bridges/cluster/natskv/nats_rewrite.h"

/* The operations on one key that are under way or wait. It exists as long as there are any. Each is
 * carried out by one thread at a time, that of its last answer. */
struct key_queue {
    struct key_queue *next; /* of the chain */
    struct key_queues *queues;
    struct nats_engine *engine;
    uint64_t hash;
    uint32_t shard;
    struct engine_operation *first, *last; /* waiting; guarded by the lock of `turns` */

    /* under way */
    struct engine_operation *run;
    unsigned run_count;
    bool reads;
    bool direct; /* any replica was asked for the entry */
    uint64_t deadline_ms;
    struct link_call call;
    struct nats_entry entry; /* as it was read */
    struct nats_rewrite rewrite;
    bool conditional;  /* the write is */
    uint64_t expected; /* of the write, then */
    bool blind;        /* the entry was not read */
    bool doubtful;     /* an earlier try of this write may have been applied */
    unsigned tries;    /* that failed, since others wrote meanwhile */
    char message_id[NATS_MESSAGE_ID_BYTES];

    /* Called when the run is over and its operations are done, no lock held. */
    void (*over)(struct key_queue *queue);

    char subject[];
};

/* Carries out queue->run, perhaps until after it returns; the turn may be gone then. */
void nats_key_run_begin(struct key_queue *queue);

#endif
