/*
 * nats_ask: questions to the servers whose caller waits for the answer: at start-up, and on threads
 * that nobody else waits for.
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_ASK_H
#define MQKV_NATSKV_NATS_ASK_H

#include "bridges/cluster/natskv/nats_link.h"

/* Sends `json` to the subject and waits for the answer, at most wait_ms. *text is malloc'ed, and
 * ends with a NUL. KV_NO_SERVER: no answer came. */
enum kv_status nats_ask(struct nats_link *link, const char *subject, const char *json,
                        unsigned wait_ms, char **text, size_t *size);

/* Like nats_ask, for up to `count` answers: calls `visit` for each, with a message that is valid
 * during the call; an answer that is a status without a message ends it. *visited: the number of
 * answers. KV_NO_SERVER: one did not come in time, or the status was another one than that there
 * are no more. */
enum kv_status nats_ask_many(struct nats_link *link, const char *subject, const char *json,
                             unsigned wait_ms, unsigned count,
                             void (*visit)(void *context, natsMsg *message), void *context,
                             unsigned *visited);

#endif
