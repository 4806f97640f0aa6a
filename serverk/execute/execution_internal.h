/*
 * execution_internal: what the files that execute operations share; no other file includes it.
 * Runners are in reads.c, writes.c and inquiries.c.
 */
#ifndef MQKV_SERVERK_EXECUTE_EXECUTION_INTERNAL_H
#define MQKV_SERVERK_EXECUTE_EXECUTION_INTERNAL_H

#include "serverk/execute/allowance.h"
#include "serverk/execute/execution_context.h"
#include "serverk/execute/reply.h"

/* A request on its way through its operations. */
struct execution {
    struct execution_context *context;
    struct kvstore *store;
    struct session *session;
    struct reply *reply;
    struct allowance allowance;
    bool synced; /* a SYNC was executed, and nothing written since */
    bool begun;  /* the first operation was executed */
    const struct wire_header *request;
    const struct wire_operation *operation;
    struct kv_slice value; /* of the operation, wherever it lies */
    struct wire_result result;
    struct kvstore_written written;
    struct reply_place place; /* of the value that was read */
    const char *refusal;      /* the whole request is refused, which is one write; or NULL */
    bool stopped;             /* the rest of the request is not executed: its reply is full */
};

static inline void tell_version(struct wire_result *result, uint64_t version)
{
    result->flags |= WIRE_RESULT_HAS_VERSION;
    result->version = version;
}

static inline void tell_number(struct wire_result *result, int64_t number)
{
    result->flags |= WIRE_RESULT_HAS_NUMBER;
    result->number = number;
}

static inline void put_entry_in_result(struct wire_result *result,
                                       const struct kvstore_entry *entry)
{
    tell_version(result, entry->version);
    if (entry->expiry_ms) {
        result->flags |= WIRE_RESULT_HAS_EXPIRY;
        result->expiry_ms = entry->expiry_ms;
    }
}

static inline void tell_size_only(struct wire_result *result, size_t value_bytes)
{
    result->flags |= WIRE_RESULT_NO_VALUE;
    result->value = kv_slice(NULL, value_bytes);
}

/* Adds the result, if it has no value in the reply yet. If the client takes a short reply, a result
 * without room for its value ends the reply: such a result is the only one, or the operation gets
 * none. */
void add_plain(struct execution *execution);

/* A kvstore_place of the execution: where a value of that size goes in the reply, kept in
 * execution->place. The engine calls it while it holds the record, and so its lock. */
void *show_place(void *execution, size_t bytes);

/* Finds the operation's value: in the message, in the mapped segment, or read out of it. */
enum kv_status take_request_value(struct execution *execution);

#endif
