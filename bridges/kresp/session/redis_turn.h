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
 * Threads: a turn belongs to one thread.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_TURN_H
#define MQKV_KRESP_SESSION_REDIS_TURN_H

#include <stdbool.h>
#include <stddef.h>

#include "bridges/kresp/session/redis_session.h"
#include "bridges/kresp/session/turn_memory.h"

/* Plain data of this module. */
struct redis_turn {
    struct redis_service *service;
    struct redis_job *jobs;
    size_t job_count, job_capacity;
    struct turn_memory memory;
    size_t value_bytes; /* the largest of the last turns, which new sessions are expected to read */
};

void redis_turn_init(struct redis_turn *turn, struct redis_service *service);
void redis_turn_free(struct redis_turn *turn);

/* True if no more should be taken before the turn has run. */
static inline bool redis_turn_is_full(const struct redis_turn *turn)
{
    return turn->memory.operation_count >= TURN_OPERATIONS ||
           turn->memory.expected_bytes >= TURN_BYTES;
}

/* Plans what the session has: what its unfinished command does next, or new commands. Its replies
 * come with redis_turn_run. True if it has, or may have, more to do afterwards without new input.
 * Each session once a turn. */
bool redis_turn_take(struct redis_turn *turn, struct redis_session *session);

/* Executes, answers and forgets all that was taken. */
void redis_turn_run(struct redis_turn *turn);

#endif
