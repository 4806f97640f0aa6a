/*
 * redis_batch: takes commands from many sessions, executes all that they ask of the store in one
 * call, and answers them, each session in the order of its commands.
 *
 *     redis_batch_take(batch, session);   for each session that has something to do
 *     redis_batch_run(batch);
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
    struct batch_memory memory;
    struct thread_scripts scripts;
    size_t value_bytes; /* the largest value lately, which new sessions are expected to read */
};

void redis_batch_init(struct redis_batch *batch, struct redis_service *service);
void redis_batch_free(struct redis_batch *batch);

/* Returns true if no more should be taken before the batch has run. */
static inline bool redis_batch_is_full(const struct redis_batch *batch)
{
    return batch->memory.operation_count >= BATCH_OPERATIONS ||
           batch->memory.expected_bytes >= BATCH_BYTES;
}

/* Plans what the session has: what its unfinished command does next, or new commands.
 * redis_batch_run writes their replies. Returns true if the session has, or may have, more to do
 * afterwards without new input. At most once for each session in a batch. */
bool redis_batch_take(struct redis_batch *batch, struct redis_session *session);

/* Executes, answers and forgets all commands of the batch. */
void redis_batch_run(struct redis_batch *batch);

#endif
