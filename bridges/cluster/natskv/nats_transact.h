/*
 * nats_transact: TRANSACT: the entries of all keys that it depends on are read, each by itself; the
 * plan (nats_plan.h) says what is to be done; and what is to be written goes to the stream as one
 * atomic batch, which the servers store as a whole or not at all, on condition that each key that
 * was read is as it was: each message of the batch has the condition of its own key, and for a key
 * that is read and not written there is a message beside the keys that has nothing but that
 * condition. So the moment of the commit is that of the whole transaction. Otherwise all is read
 * and planned again.
 *
 * If nothing is to be written, the keys are read again until none has changed between two reads:
 * then there was a moment at which all had what was found.
 *
 * All keys lie in one shard, or nothing is done: KV_APART.
 */
#ifndef MQKV_NATSKV_NATS_TRANSACT_H
#define MQKV_NATSKV_NATS_TRANSACT_H

#include "bridges/cluster/natskv/nats_engine.h"

/* Begins the operation, an ENGINE_TRANSACT, and calls its `done` later. */
void nats_transact_begin(struct nats_engine *engine, struct engine_operation *operation);

#endif
