/*
 * submission: a request whose operations are handed to an engine that is elsewhere
 * (engine/store_engine.h). The worker that received it goes on at once; the outcomes come from
 * threads of the engine, one of which sends the reply.
 *
 * Up to SUBMISSION_WINDOW operations of a request are under way together. Those on one key are
 * executed in their order; those on different keys in any. SCAN, EXCHANGE, SYNC, STATS and PING
 * are under way alone. A write waits while it is not certain that its result has a place in the
 * reply: so of a reply that stops early, nothing behind the stop was executed but reads. Once the
 * engine has given one up for want of an answer, of a write also for one that makes no sense, no
 * other begins: they get KV_NO_SERVER, even where a short reply would do. Behind one that got
 * KV_DEADLINE or KV_OVERLOADED they get the same, or the reply ends.
 *
 * Threads: any.
 */
#ifndef MQKV_SERVERK_EXECUTE_SUBMISSION_H
#define MQKV_SERVERK_EXECUTE_SUBMISSION_H

#include <stdint.h>

#include "serverk/execute/submission_pool.h"
#include "wire/message.h"

#define SUBMISSION_WINDOW 16u

/* Takes the request, whose operations are at the cursor, and copies what it needs of them; holds
 * the session until its reply was sent. Else nothing was executed, and *sentence says why:
 * KV_OVERLOADED, KV_NO_MEMORY. */
enum kv_status submission_take(struct submissions *submissions, struct session *session,
                               const struct wire_header *request, struct read_cursor *operations,
                               uint64_t received_ns, const char **sentence);

#endif
