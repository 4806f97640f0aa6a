/*
 * redis_batch: takes commands from many sessions, executes all that they ask of the store in one
 * call, and answers them, each session in the order of its commands.
 *
 *     redis_batch_take(batch, session);   for each session that has something to do
 *     redis_batch_begin(batch);
 *     redis_batch_end(batch);
 *
 * A session's commands are taken until one of them must be complete before the next can be
 * understood or executed; that command then continues in later batches, without holding up other
 * sessions.
 *
 * Between begin and end the thread may take from other sessions into its other batch: a batch's
 * sessions wait for its end.
 *
 * Threads: a batch belongs to one thread.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_BATCH_H
#define MQKV_KRESP_SESSION_REDIS_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "bridges/kresp/session/redis_session.h"
#include "bridges/kresp/session/batch_memory.h"
#include "bridges/kresp/session/store_flight.h"

/* Only this module uses its fields. */
struct redis_batch {
    struct redis_service *service;
    struct redis_job *jobs;
    size_t job_count, job_capacity;
    struct batch_memory memory;
    struct store_flight *flight;
    size_t value_bytes; /* the largest value lately, which new sessions are expected to read */
};

/* What runs the thread's scripts, and its flight, may be shared by batches of the thread; both stay
 * the caller's. */
void redis_batch_init(struct redis_batch *batch, struct redis_service *service,
                      struct thread_scripts *scripts, struct store_flight *flight);
void redis_batch_free(struct redis_batch *batch);

/* Returns true if no more should be taken before the batch has run. */
static inline bool redis_batch_is_full(const struct redis_batch *batch)
{
    return batch->memory.operation_count >= BATCH_OPERATIONS ||
           batch->memory.expected_bytes >= BATCH_BYTES;
}

/* Returns true if the batch has as many small requests as one message holds: further ones are sent
 * sooner with the next batch. */
static inline bool redis_batch_fills_message(const struct redis_batch *batch)
{
    return batch->memory.small_bytes >= BATCH_SMALL_BYTES;
}

/* Plans what the session has: what its unfinished command does next, or new commands.
 * redis_batch_end writes their replies. Returns true if the session has, or may have, more to do
 * afterwards without new input. At most once for each session in a batch. */
bool redis_batch_take(struct redis_batch *batch, struct redis_session *session);

/* Executes the commands, or, if the thread has other work (may_fly), only begins to; no other batch
 * of the flight may be between begin and end. True: they are under way. */
bool redis_batch_begin(struct redis_batch *batch, bool may_fly);

/* Waits for the results; answers and forgets all commands of the batch. */
void redis_batch_end(struct redis_batch *batch);

#endif
