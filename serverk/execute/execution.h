/*
 * execution: the operations of a request on the store, and their results in a reply.
 *
 * Nothing here waits, but for the locks of the store and for segments that are not mapped. Nothing
 * allocates, but STATS and what the engine takes for a write (index segments, cached values).
 */
#ifndef MQKV_SERVERK_EXECUTE_EXECUTION_H
#define MQKV_SERVERK_EXECUTE_EXECUTION_H

#include "serverk/execute/execution_context.h"
#include "serverk/execute/reply.h"

/* Executes, in order, the request->count operations at the cursor. KV_OK: *reply is complete but
 * for reply_finish, and context->waits tells what it must wait for. Else nothing was executed, and
 * *sentence says why.
 *
 * An operation that cannot be decoded ends the execution: it and those behind it get its status. */
enum kv_status execute_request(struct execution_context *context, struct session *session,
                               const struct wire_header *request, struct read_cursor *operations,
                               struct reply *reply, const char **sentence);

/* What executes each opcode. */
extern const operation_runner execution_runners[STATISTICS_OPCODES];

/* What a PUT or EXCHANGE, and an ADD, ask of an engine. */
struct kvstore_put_options operation_put_options(const struct wire_operation *operation);
struct kvstore_add_options operation_add_options(const struct wire_operation *operation);

#endif
