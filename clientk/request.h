/*
 * request: what one call of a thread wants done: a run of operations and where their results go, and
 * how far it has got. It lives on the stack of the thread, which waits until it is finished; meanwhile
 * the leader of the channel (channel.h) works on it.
 *
 * Operations are executed in order. An operation that the server refused for want of room for its
 * value (KV_BUFFER_TOO_SMALL in its result) is due again before any that has not been sent.
 */
#ifndef MQKV_CLIENTK_REQUEST_H
#define MQKV_CLIENTK_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/clientk.h"
#include "common/error.h"
#include "wire/operation.h"

struct request {
    /* Set by the caller. Either operations, or one special that clientk_operation has no form for. */
    const struct clientk_operation *operations;
    const struct wire_operation *special;
    size_t count;
    struct clientk_result *results;
    uint64_t deadline_ms;
    struct kv_error *error;

    /* Progress. */
    size_t next;           /* first operation that was not sent yet */
    size_t redo, redo_end; /* among these are refused ones that are due again */
    uint64_t redo_bytes;   /* of their values */
    size_t uncertain_end;  /* writes before this that are due may have been executed already */
    bool sent;             /* some of it was packed into a message */
    bool finished;
    enum kv_status status; /* once finished: KV_OK, or what stopped it */

    /* While it waits in a channel. */
    struct request *following;
    _Atomic uint32_t turn; /* enum request_turn */
    unsigned sleeper;      /* number of its thread in the channel: says where it sleeps */
};

/* The operation of that index as it goes over the wire, or the status that it gets without. */
enum kv_status request_operation(const struct request *request, size_t index,
                                 uint64_t max_value_bytes, struct wire_operation *operation);

enum wire_opcode request_opcode(const struct request *request, size_t index);

/* The operation that is due, if any; *again: it is a refused one. */
bool request_due(struct request *request, size_t *index, bool *again);

/* It is on its way now, or settled: the next one is due. */
void request_advance(struct request *request, bool again);

/* It is due once more. uncertain: it may have been executed. */
void request_rewind(struct request *request, size_t index, bool again, bool uncertain);

/* It was refused for want of room for value_bytes. */
void request_refused(struct request *request, size_t index, uint64_t value_bytes);

/* The operation was not executed this time: gives it the status, or KV_OUTCOME_UNKNOWN if it writes and
 * may have been executed before. Returns what it gave. */
enum kv_status request_not_executed(struct request *request, size_t index, enum kv_status status);

/* Finishes it if nothing is due. */
void request_finish_if_done(struct request *request);

/* Begins anew; nothing of it was sent. */
void request_restart(struct request *request);

/* Finishes it: the operations that are due get status_of_rest, which must say that they were not
 * executed; uncertain ones KV_OUTCOME_UNKNOWN, which then is the request's status, too. The results
 * of those on their way are the caller's business. */
void request_stop(struct request *request, enum kv_status status, enum kv_status status_of_rest);

#endif
