/*
 * user_queue: those connections of one user that have something to do, and how much of the thread's
 * time the user gets. Each round of a thread is for the connections of one user; users take turns.
 * A round that has used ROUND_NS takes nothing more, and executes nothing more of what it has
 * taken: that stays in the user's queue, for the next turn. A script or a transaction that is under
 * way is paused until then, with its round; other commands end.
 *
 * A user whose round took long rests as long for each other user who is active and does not rest,
 * so that somebody who sends a request after each reply need not wait for such a round every time.
 * The rest is the user's (redis_user.h): it counts in all threads, and after the user's last
 * connection has gone. Nor does a user who has just rested have rounds in several threads at once.
 * In a thread in which no other is active nobody rests.
 *
 * Threads: all queues of a thread belong to it.
 */
#ifndef MQKV_KRESP_BRIDGE_USER_QUEUE_H
#define MQKV_KRESP_BRIDGE_USER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/session/redis_user.h"

/* After so long a round ends. */
#define ROUND_NS (2u * 1000 * 1000)

/* Another user counts as active until this long after the end of its last round, or as long as
 * the round took that is charged. */
#define USER_ACTIVE_NS (5u * 1000 * 1000)

/* After a shorter round than USER_SHORT_NS there is no rest. */
#define USER_SHORT_NS (50u * 1000)

/* When a user waits for the end of its round in another thread, it is looked for that so often. */
#define USER_LOOK_NS (1000u * 1000)

/* For so long after its last round a user is waited for: others rest for it, and its queue stays
 * without connections, since it may come back at once. */
#define USER_KEPT_NS (1000u * 1000 * 1000)

struct redis_connection;

/* A list of connections; a connection is in one at a time. */
struct connection_list {
    struct redis_connection *first, *last;
};

struct redis_batch;
struct relay_runner;

/* Users of this struct change nothing in it but the number of connections, and the round. */
struct user_queue {
    struct user_queue *next; /* the next in a ring of all queues of the thread */
    uint32_t uid;
    struct redis_user *user; /* set while the user has connections */
    size_t connections;      /* the user's connections in this thread; the thread counts them */
    struct connection_list small,
        large;                    /* a connection waits in one of them, by what it is expected
                                   * to ask for */
    bool large_is_due;            /* the last round had no time for any of them */
    struct redis_batch *batch;    /* what the last round left to be answered; NULL: nothing */
    struct connection_list taken; /* whose commands are in the batch */
    struct relay_runner *paused;  /* its round is paused there, in a command; NULL: it is not */
    uint64_t active_ns;           /* when the user's last round ended */
};

/* The queues of a thread. Start from {0}. */
struct user_queues {
    struct user_queue
        *last; /* the queue that had the last round, in the ring of all; NULL: there is none */
};

/* Returns the queue of the user, and makes it if there is none; NULL: no memory. */
struct user_queue *user_queue_of(struct user_queues *queues, struct redis_user *user);

/* Removes the queues without connections whose last round was USER_KEPT_NS ago at now_ns
 * (monotonic; 0: all without connections). */
void user_queues_purge(struct user_queues *queues, uint64_t now_ns);

/* Forgets what is left to be answered. */
void user_queues_forget_batches(struct user_queues *queues);

/* Returns a queue whose round is paused, or NULL. */
struct user_queue *user_queues_paused(const struct user_queues *queues);

/* The connection waits for a round from now on. */
void user_queue_push(struct user_queue *queue, struct redis_connection *connection);

/* Appends the connection to the list. */
void connection_list_push(struct connection_list *queue, struct redis_connection *connection);

/* Takes the connection that has waited longest out of the list; NULL: the list is empty. */
struct redis_connection *connection_list_pop(struct connection_list *queue);

static inline bool user_queue_waits(const struct user_queue *queue)
{
    return queue->small.first || queue->large.first || queue->batch || queue->paused;
}

/* Returns the queue whose turn it is at `now_ns` (monotonic): of the queues in which connections
 * wait and that do not rest, the one whose last round was longest ago. NULL: there is none; then
 * *rest_ns says how long until one of them has rested, UINT64_MAX: no connection waits. */
struct user_queue *user_queue_next(const struct user_queues *queues, uint64_t now_ns,
                                   uint64_t *rest_ns);

/* The queue had a round from start_ns to end_ns. */
void user_queue_charge(struct user_queues *queues, struct user_queue *queue, uint64_t start_ns,
                       uint64_t end_ns);

/* Returns true if there are several queues: only then does time matter. */
static inline bool user_queues_are_several(const struct user_queues *queues)
{
    return queues->last && queues->last->next != queues->last;
}

#endif
