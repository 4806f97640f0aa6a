/*
 * nats_turn: the order of operations on one key. While one of them is under way, those that come
 * wait; then all that wait go together: reads as one read, writes as one message (nats_rewrite.h).
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_TURN_H
#define MQKV_NATSKV_NATS_TURN_H

#include "bridges/cluster/natskv/nats_engine.h"

/* NULL: out of memory. */
struct key_turns *nats_turns_create(struct nats_engine *engine);

/* No operation may be under way. NULL is harmless. */
void nats_turns_free(struct key_turns *turns);

/* An operation on one key, whose done will be called: with KV_DEADLINE if its deadline comes while
 * it waits for its turn, with KV_NO_SERVER if the engine's patience ends before
 * (nats_bound_deadline). shard: of the key; encoded: the key in a subject. */
void nats_turns_take(struct key_turns *turns, struct engine_operation *operation, uint32_t shard,
                     const char *encoded);

#endif
