/*
 * execution_internal: what the files that execute operations share; no other file of serverk
 * includes it. Operations on keys are in execution.c; SCAN, STATS, PING and ADMIN, whose results
 * are texts or pages made for them, in inquiries.c; WATCH in watch.c; BACKUP in backup.c; TRANSACT
 * in transact_request.c; ranges in range_request.c.
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

/* Adds the result, if it has no value in the reply yet. If the client takes a short reply, a result
 * without room for its value ends the reply: such a result is the only one, or the operation gets
 * none. */
void add_plain(struct execution *execution);

/* A kvstore_place of the execution: where a value of that size goes in the reply, kept in
 * execution->place. The engine calls it while it holds the record, and so its lock. */
void *show_place(void *execution, size_t bytes);

/* Copies `bytes` into the reply as the result's value. They may lie in the segment, and the reply
 * window over them: then the reply has them as they were. */
void add_answer(struct execution *execution, struct kv_slice bytes);

/* Finds the operation's value: in the message, in the mapped segment, or read out of it. */
enum kv_status take_request_value(struct execution *execution);

/* What was written, up to the ticket, is to be as durable as the server or the operation says. */
void see_to_durability(struct execution *execution, struct kvstore_ticket ticket);

/* Passes a write through the gate, which there is. False: the result is that it was refused. */
bool passes_write_gate(struct execution *execution);

/* Runners (execution_context.h). */
void execute_scan(struct execution *execution);
void execute_stats(struct execution *execution);
void execute_ping(struct execution *execution);
void execute_admin(struct execution *execution);

/* WATCH (docs/PROTOCOL.md): a page of the changes of one data file behind the positions that the
 * client names. The server remembers nothing of a client that watches: what it has missed is found
 * by its positions. Where there is nothing yet, the request waits with the watchers (watchers.h),
 * and is executed again there. */
void execute_watch(struct execution *execution);

/* TRANSACT (docs/PROTOCOL.md): guards and two lists of steps, one of which is done as a whole. */
void execute_transact(struct execution *execution);

/* RANGE, RANGE_COUNT and RANGE_DELETE (docs/PROTOCOL.md): keys in their order. */
void execute_range(struct execution *execution);
void execute_range_count(struct execution *execution);
void execute_range_delete(struct execution *execution);

/* BACKUP (docs/PROTOCOL.md): data files as they were at one moment, for the daemon's own user and
 * root. Others may read all entries too, but a data file has more than those: what was deleted and
 * replaced, until a compaction. */
void execute_backup(struct execution *execution);

#endif
