/*
 * watchers: requests with a WATCH for which there is nothing yet. One thread, which begins with the
 * first of them, executes each again when something was written, and when its time is over. It
 * takes at most half of a CPU. A request takes a place and some bytes here until it is answered,
 * and no reference to its session: a client that is slow, stopped or dead costs nobody anything.
 *
 * Threads: any.
 */
#ifndef MQKV_SERVERK_EXECUTE_WATCHERS_H
#define MQKV_SERVERK_EXECUTE_WATCHERS_H

#include <stdint.h>

#include "mqkv/kvstore.h"
#include "serverk/execute/execution_context.h"
#include "serverk/execute/statistics.h"
#include "serverk/session/session_table.h"
#include "wire/message.h"
#include "wire/operation.h"

/* The requests that wait, and their bytes; users share both as user_places.h says. */
#define WATCHERS_MAX       1024u
#define WATCHERS_MAX_BYTES (16u << 20)

struct watchers;
struct reply;

/* execute_request (execution.h). */
typedef enum kv_status (*watchers_execute)(struct execution_context *context,
                                           struct session *session,
                                           const struct wire_header *request,
                                           struct read_cursor *operations, struct reply *reply,
                                           const char **sentence);

/* Registers as the store's listener for changes. NULL: out of memory. */
struct watchers *watchers_create(struct kvstore *store, struct session_table *sessions,
                                 struct fragment_budget *budget, const struct live_settings *live,
                                 watchers_execute execute, const operation_runner *runners);

/* From now on, `listener` is told, too, of what kvstore_await_change asked for; NULL: nobody else
 * is told. */
void watchers_also_tell(struct watchers *watchers, kvstore_change_listener listener, void *context);

/* Ends the thread; requests that still wait get no answer. NULL is harmless. */
void watchers_stop(struct watchers *watchers);

/* To be called after watchers_stop, when the store calls no more. NULL is harmless. */
void watchers_free(struct watchers *watchers);

/* Returns how often kvstore_await_change has been answered; to be read before a request that is to
 * wait asks for changes. */
uint64_t watchers_told(const struct watchers *watchers);

/* Takes the request, which is answered from here; told_before: if watchers_told is another by now,
 * a change may have come that the request has not seen, and it is executed again at once.
 * KV_OVERLOADED: there is no place; KV_NO_MEMORY, KV_LIMIT. */
enum kv_status watchers_take(struct watchers *watchers, const struct session *session,
                             const struct wire_header *request,
                             const struct wire_operation *operation, struct kv_slice positions,
                             uint64_t told_before);

/* Returns the number of requests that wait now; 0 of NULL. */
uint64_t watchers_waiting(struct watchers *watchers);

/* Adds to *sum what was counted. watchers NULL is harmless. */
void watchers_statistics(struct watchers *watchers, struct worker_statistics *sum);

#endif
