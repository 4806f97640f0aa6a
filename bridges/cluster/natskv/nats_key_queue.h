/*
 * nats_key_queue: the order of operations on one key. While one is under way, those that come
 * wait; then all that wait go together: reads as one read, writes as one message (nats_rewrite.h).
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_KEY_QUEUE_H
#define MQKV_NATSKV_NATS_KEY_QUEUE_H

#include "bridges/cluster/natskv/nats_engine.h"

/* Makes the queues of an engine. NULL: out of memory. */
struct key_queues *nats_key_queues_create(struct nats_engine *engine);

/* Frees the queues. No operation may be under way. NULL is harmless. */
void nats_key_queues_free(struct key_queues *queues);

/* Takes an operation on one key, and calls its `done` later: with KV_DEADLINE if its deadline comes
 * while it waits in the queue, with KV_NO_SERVER if the engine's patience ends before
 * (nats_bound_deadline). shard: of the key; encoded: the key in a subject. */
void nats_key_queues_take(struct key_queues *queues, struct engine_operation *operation,
                          uint32_t shard, const char *encoded);

#endif
