/*
 * submission_internal: what submission.c and submitted_operation.c share; no other file includes
 * it.
 */
#ifndef MQKV_SERVERK_EXECUTE_SUBMISSION_INTERNAL_H
#define MQKV_SERVERK_EXECUTE_SUBMISSION_INTERNAL_H

#include <pthread.h>

#include "serverk/execute/reply.h"
#include "serverk/execute/scan_page.h"
#include "serverk/execute/submission.h"

struct submission;

/* One operation under way. */
struct submitted_operation {
    struct engine_operation engine;
    struct submission *submission;
    struct wire_operation operation; /* slices into the submission's copy of the message */
    uint8_t *brought;                /* a value out of the segment, copied; else NULL */
    uint8_t *found;                  /* the value that was found, copied; else NULL */
    struct reply_place place;        /* SCAN, EXCHANGE */
    struct scan_page page;
    unsigned tries; /* of a SCAN */
    bool done;      /* guarded by the submission's lock */
};

struct submission {
    struct submissions *all;
    struct session *session; /* held */
    struct wire_header request;
    struct read_cursor operations; /* those not decoded yet, in `message` */
    struct reply reply;
    uint8_t *reply_buffer;
    uint64_t received_ns;
    unsigned kind; /* statistics_kind */

    /* of the thread that advances it */
    struct wire_operation upcoming; /* decoded, not begun yet */
    bool has_upcoming;
    uint16_t decoded;
    enum kv_status verdict; /* of the operations that are not executed; KV_OK: none yet */
    const char *sentence;   /* of the one operation there was */
    enum kv_status refusal; /* of the message as a whole, with sentence; KV_OK: none */
    bool ended;             /* no other operation begins */
    bool stopped;           /* the reply ends early: what is under way gets no result */
    unsigned first, count;  /* of the ring */
    struct submitted_operation ring[SUBMISSION_WINDOW];

    pthread_mutex_t lock; /* below, and `done` of the ring */
    bool advancing;       /* by some thread */
    bool again;           /* something was done meanwhile */

    size_t message_bytes;
    uint8_t message[];
};

/* Begins submission->upcoming, which is decoded, as the last of the ring: hands it to the engine,
 * or answers it at once. */
void submitted_operation_begin(struct submission *submission);

/* Adds the result of an operation that is done to the reply; frees what it has. True: the reply
 * ends there. */
bool submitted_operation_settle(struct submitted_operation *submitted);

/* Frees what it has, its result being of no use any more. */
void submitted_operation_drop(struct submitted_operation *submitted);

/* An operation is done: what can go on, does. */
void submission_done(struct submission *submission, struct submitted_operation *submitted);

static inline struct submitted_operation *submission_at(struct submission *submission,
                                                        unsigned index)
{
    return &submission->ring[(submission->first + index) % SUBMISSION_WINDOW];
}

/* Counts a result; bytes that were read out of a segment. */
void submission_count_result(struct submission *submission, enum wire_opcode opcode,
                             enum kv_status status);
void submission_count_brought(struct submission *submission, size_t bytes);

/* Executes ADMIN; the session is filled in. */
enum kv_status submission_admin(const struct submission *submission, struct admin_call *call);

/* The text of STATS. */
enum kv_status submission_stats(const struct submission *submission, struct kv_slice section,
                                char **text, size_t *size);
struct store_engine *submission_engine(const struct submission *submission);

#endif
