/*
 * nats_ask: questions to the servers that the caller waits for: for start-up, and for threads that
 * nobody else waits for.
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_ASK_H
#define MQKV_NATSKV_NATS_ASK_H

#include "bridges/cluster/natskv/nats_link.h"

/* Sends `json` to the subject and waits for the answer, at most wait_ms. *text is malloc'ed, and
 * has a NUL behind. KV_NO_SERVER: there was none. */
enum kv_status nats_ask(struct nats_link *link, const char *subject, const char *json,
                        unsigned wait_ms, char **text, size_t *size);

/* The same, for up to `count` answers: `visit` is called for each, the message being valid during
 * the call; one that is a status without a message ends it. *visited: how many there were.
 * KV_NO_SERVER: one did not come in time, or the status was another than that there are no more. */
enum kv_status nats_ask_many(struct nats_link *link, const char *subject, const char *json,
                             unsigned wait_ms, unsigned count,
                             void (*visit)(void *context, natsMsg *message), void *context,
                             unsigned *visited);

#endif
