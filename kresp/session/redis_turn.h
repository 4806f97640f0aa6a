/*
 * redis_turn: takes commands from many sessions, executes all that they ask of the store in one
 * call, and answers them, each session in the order of its commands.
 *
 *     redis_turn_take(turn, session);   for each session that has something to do
 *     redis_turn_run(turn);
 *
 * A session's commands are taken until one of them must be seen through before the next can be
 * understood or executed: its own turns then go on one by one, without holding up other sessions.
 *
 * Memory: a turn holds at most REDIS_TURN_OPERATIONS operations and the chunk of one command more.
 * How large values are is known only afterwards: what the last turns have read limits the next, as
 * a whole and for each session. Threads: a turn belongs to one thread.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_TURN_H
#define MQKV_KRESP_SESSION_REDIS_TURN_H

#include <stdbool.h>
#include <stddef.h>

#include "kresp/session/redis_job.h"
#include "kresp/session/redis_session.h"
#include "mqkv/clientk.h"

/* Values of 1 MiB, the default limit of serverk, then take half of the default of --buffers. */
#define REDIS_TURN_OPERATIONS 128u

/* Of a command with many keys, so many are dealt with in one turn; of one that reads values
 * redis_turn_chunk. */
#define REDIS_CHUNK_KEYS 128u

struct redis_turn_memory; /* a piece of the memory that redis_turn_allocate gives */

/* Plain data of this module and of redis_job. */
struct redis_turn {
    struct redis_service *service;
    struct redis_job *jobs;
    size_t job_count, job_capacity;
    struct clientk_operation *operations;
    size_t operation_count, operation_capacity;
    struct clientk_result *results; /* their values' memory is used again and again */
    size_t result_capacity;
    size_t largest_bytes;   /* of the values of the last turns, less with each turn without such */
    size_t operation_limit; /* of a turn, and of each session in it */
    size_t session_limit;
    struct redis_turn_memory *memory;
    size_t memory_used;
};

void redis_turn_init(struct redis_turn *turn, struct redis_service *service);
void redis_turn_free(struct redis_turn *turn);

/* True if no more should be taken before the turn has run. */
static inline bool redis_turn_is_full(const struct redis_turn *turn)
{
    return turn->operation_count >= turn->operation_limit;
}

static inline size_t redis_turn_chunk(const struct redis_turn *turn)
{
    return turn->session_limit < REDIS_CHUNK_KEYS ? turn->session_limit : REDIS_CHUNK_KEYS;
}

/* Plans what the session has: what its unfinished command does next, or new commands. Its replies
 * come with redis_turn_run. True if it has, or may have, more to do afterwards without new input.
 * Each session once a turn. */
bool redis_turn_take(struct redis_turn *turn, struct redis_session *session);

/* Executes, answers and forgets all that was taken. */
void redis_turn_run(struct redis_turn *turn);

/* Memory until the end of the turn; NULL: there is none. */
void *redis_turn_allocate(struct redis_turn *turn, size_t bytes);

#endif
