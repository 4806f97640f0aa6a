/*
 * submission: a request whose operations are handed to an engine that is elsewhere
 * (engine/store_engine.h). The worker that received it goes on at once; the outcomes come from
 * threads of the engine, one of which sends the reply.
 *
 * Up to SUBMISSION_WINDOW operations of a request are under way together. Those on one key are
 * executed in their order; those on different keys in any. SCAN, EXCHANGE, SYNC, STATS and PING
 * are under way alone. A write waits while it is not certain that its result has a place in the
 * reply: so of a reply that stops early, nothing behind the stop was executed but reads.
 *
 * Threads: any.
 */
#ifndef MQKV_SERVERK_EXECUTE_SUBMISSION_H
#define MQKV_SERVERK_EXECUTE_SUBMISSION_H

#include <stdint.h>

#include "engine/store_engine.h"
#include "serverk/execute/execution_context.h"
#include "serverk/execute/statistics.h"
#include "serverk/session/session_table.h"
#include "wire/message.h"

#define SUBMISSION_WINDOW 16u

/* Requests under way at once, and the bytes of their messages and values; more are refused. */
#define SUBMISSIONS_MAX       4096u
#define SUBMISSIONS_MAX_BYTES (256ull << 20)

struct submissions;

/* engine: one whose operations are submitted. NULL: out of memory. */
struct submissions *submissions_create(struct store_engine *engine, struct session_table *sessions,
                                       struct fragment_budget *budget, stats_writer write_stats,
                                       const void *stats_context);

/* Who executes ADMIN; before the first request. */
void submissions_set_admin(struct submissions *submissions, admin_runner run_admin, void *context);

/* After submissions_drain. NULL is harmless. */
void submissions_free(struct submissions *submissions);

/* Takes the request, whose operations are at the cursor, and copies what it needs of them; holds
 * the session until its reply was sent. Else nothing was executed, and *sentence says why:
 * KV_OVERLOADED, KV_NO_MEMORY. */
enum kv_status submissions_take(struct submissions *submissions, struct session *session,
                                const struct wire_header *request, struct read_cursor *operations,
                                uint64_t received_ns, const char **sentence);

/* Waits until no request is under way. */
void submissions_drain(struct submissions *submissions);

/* Requests under way now; 0 of NULL. */
uint64_t submissions_under_way(struct submissions *submissions);

/* Adds what was counted for requests that ended. NULL is harmless. */
void submissions_statistics(struct submissions *submissions, struct worker_statistics *sum);

#endif
