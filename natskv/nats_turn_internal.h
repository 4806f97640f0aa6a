/*
 * nats_turn_internal: a turn, for the files that carry it out; no other file includes it.
 */
#ifndef MQKV_NATSKV_NATS_TURN_INTERNAL_H
#define MQKV_NATSKV_NATS_TURN_INTERNAL_H

#include "natskv/nats_entry.h"
#include "natskv/nats_rewrite.h"
#include "natskv/nats_turn.h"

/* The operations on one key that are under way or wait. It exists as long as there are any. Each is
 * carried out by one thread at a time, that of its last answer. */
struct key_turn {
    struct key_turn *next; /* of the chain */
    struct key_turns *turns;
    struct nats_engine *engine;
    uint64_t hash;
    uint32_t shard;
    struct engine_operation *first, *last; /* waiting; guarded by turns->lock */

    /* under way */
    struct engine_operation *run;
    unsigned run_count;
    bool reads;
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

    char subject[];
};

/* Carries out turn->run. */
void nats_turn_begin(struct key_turn *turn);

/* The run is over, and its operations are done: those that wait are next. The turn may be gone. */
void nats_turn_next(struct key_turn *turn);

#endif
