/*
 * redis_batch: takes commands from many sessions, executes all that they ask of the store in one
 * call, and answers them, each session in the order of its commands.
 *
 *     redis_batch_begin(batch, until_ns);
 *     redis_batch_take(batch, session);   for each session that has something to do
 *     redis_batch_run(batch);             and again, after redis_batch_begin, until it returns true
 *
 * A batch has a clock. When its time has come it takes no more commands, and executes none more of
 * those that run when they are answered (scripts, EXEC, PUBLISH, SCAN and their like): these wait
 * until the batch is given more time. A command that is under way ends, or gives way by itself
 * (thread_scripts) and has new time then.
 *
 * A session's commands are taken until one of them must be complete before the next can be
 * understood or executed; that command then continues in later batches, without holding up other
 * sessions.
 *
 * Threads: a batch belongs to one thread.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_BATCH_H
#define MQKV_KRESP_SESSION_REDIS_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "bridges/kresp/session/redis_session.h"
#include "bridges/kresp/session/batch_memory.h"

/* Only this module uses its fields. */
struct redis_batch {
    struct redis_service *service;
    struct redis_job *jobs;
    size_t job_count, job_capacity;
    size_t answered;   /* jobs, of a batch whose operations were executed */
    bool is_executed;  /* its operations were */
    bool is_spent;     /* its time has come */
    uint64_t until_ns; /* monotonic */
    struct batch_memory memory;
    size_t value_bytes; /* the largest value lately, which new sessions are expected to read */
};

/* Returns a new batch; NULL: no memory. scripts: the thread's, which outlive it. */
struct redis_batch *redis_batch_new(struct redis_service *service, struct thread_scripts *scripts);

/* Forgets what was not answered, whose sessions must still be there. NULL is harmless. */
void redis_batch_free(struct redis_batch *batch);

/* What the batch executes from now on finds these scripts, which outlive it. */
static inline void redis_batch_set_scripts(struct redis_batch *batch,
                                           struct thread_scripts *scripts)
{
    batch->memory.scripts = scripts;
}

/* Gives the batch time until until_ns (monotonic). */
void redis_batch_begin(struct redis_batch *batch, uint64_t until_ns);

/* Returns true if no more should be taken before the batch has run. */
static inline bool redis_batch_is_full(const struct redis_batch *batch)
{
    return batch->is_spent || batch->memory.operation_count >= BATCH_OPERATIONS ||
           batch->memory.expected_bytes >= BATCH_BYTES;
}

/* Plans what the session has: what its unfinished command does next, or new commands.
 * redis_batch_run writes their replies. Returns true if the session has, or may have, more to do
 * afterwards without new input. At most once for each session in a batch. */
bool redis_batch_take(struct redis_batch *batch, struct redis_session *session);

/* Executes and answers the commands of the batch, and forgets them. False: its time has come before
 * it had answered all of them, and it goes on when it is called again. */
bool redis_batch_run(struct redis_batch *batch);

#endif
