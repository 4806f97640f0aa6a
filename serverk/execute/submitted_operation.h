/*
 * submitted_operation: one operation of a request that an engine elsewhere executes
 * (submission.h): from the wire to the engine, and its result into the reply.
 *
 * Threads: begun, settled and dropped by the thread that advances the request; the engine calls
 * back on any.
 */
#ifndef MQKV_SERVERK_EXECUTE_SUBMITTED_OPERATION_H
#define MQKV_SERVERK_EXECUTE_SUBMITTED_OPERATION_H

#include "engine/store_engine.h"
#include "serverk/execute/reply.h"
#include "serverk/execute/scan_page.h"
#include "serverk/execute/submission_pool.h"
#include "wire/message.h"

struct submitted_operation;
struct submitted_transaction;

/* What an operation needs of its request. */
struct submitted_request {
    struct submissions *all;
    struct session *session; /* held */
    uid_t uid;               /* of the session */
    struct wire_header header;
    struct reply reply;
    enum kv_status refusal; /* of the message as a whole, with sentence; KV_OK: none */
    const char *sentence;

    /* The operation is done and can be settled; any thread, once. */
    void (*done)(struct submitted_request *request, struct submitted_operation *submitted);
};

/* One operation under way. */
struct submitted_operation {
    struct engine_operation engine;
    struct submitted_request *request;
    struct wire_operation operation; /* slices into the request's copy of the message */
    uint8_t *brought;                /* a value out of the segment, copied; else NULL */
    uint8_t *found;                  /* the value that was found, copied; else NULL */
    size_t counted_bytes;            /* of both, by submissions_add_bytes */
    struct reply_place place;        /* SCAN, EXCHANGE */
    struct scan_page page;
    unsigned tries;                            /* of a SCAN */
    struct submitted_transaction *transaction; /* TRANSACT; else NULL */
    bool done; /* the caller's, guarded by its lock; false at first */
};

/* Begins the operation, which was decoded: hands it to the engine, or answers it at once.
 * request->done may be called before this returns. */
void submitted_operation_begin(struct submitted_operation *submitted,
                               struct submitted_request *request,
                               const struct wire_operation *operation);

/* Adds the result of an operation that is done to the reply; frees what it has. True: the reply
 * ends there. */
bool submitted_operation_settle(struct submitted_operation *submitted);

/* Frees what the operation has, where its result is of no use any more. */
void submitted_operation_drop(struct submitted_operation *submitted);

#endif
