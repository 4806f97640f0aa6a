/*
 * user_queue: those connections of one user that have something to do, and how much of the thread's
 * time the user gets. Each batch of a thread (redis_batch.h) is for the connections of one user;
 * users take turns.
 *
 * A user whose batch took long while others were active rests for the time of the batch times their
 * number, so that somebody who sends a request after each reply need not wait for such a batch
 * every time. A user that is alone never rests.
 *
 * Threads: all queues of a thread belong to it.
 */
#ifndef MQKV_KRESP_BRIDGE_USER_QUEUE_H
#define MQKV_KRESP_BRIDGE_USER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/session/redis_user.h"

/* A user counts as active until this long after the end of its last batch. */
#define USER_ACTIVE_NS (5u * 1000 * 1000)

/* After a shorter batch than USER_SHORT_NS there is no rest, and no rest is longer than
 * USER_MAX_REST_NS. */
#define USER_SHORT_NS    (50u * 1000)
#define USER_MAX_REST_NS (100u * 1000 * 1000)

struct redis_connection;

/* A list of connections; a connection is in one at a time. */
struct connection_list {
    struct redis_connection *first, *last;
};

/* Users of this struct change nothing in it but the number of connections. */
struct user_queue {
    struct user_queue *next; /* the next in a ring of all queues of the thread */
    struct redis_user *user; /* set while the user has connections */
    size_t connections;      /* the user's connections in this thread; the thread counts them */
    struct connection_list small,
        large;          /* a connection waits in one of them, by what it is expected to ask for */
    uint64_t active_ns; /* when the user's last batch ended */
    uint64_t rests_until_ns;
};

/* The queues of a thread. Start from {0}. */
struct user_queues {
    struct user_queue
        *last; /* the queue that had the last batch, in the ring of all; NULL: there is none */
};

/* Returns the queue of the user, and makes it if there is none; NULL: no memory. */
struct user_queue *user_queue_of(struct user_queues *queues, struct redis_user *user);

/* Removes a queue that has no connections any more. */
void user_queue_remove(struct user_queues *queues, struct user_queue *queue);

/* The connection waits for a batch from now on. */
void user_queue_push(struct user_queue *queue, struct redis_connection *connection);

/* Appends the connection to the list. */
void connection_list_push(struct connection_list *queue, struct redis_connection *connection);

/* Takes the connection that has waited longest out of the list; NULL: the list is empty. */
struct redis_connection *connection_list_pop(struct connection_list *queue);

static inline bool user_queue_waits(const struct user_queue *queue)
{
    return queue->small.first || queue->large.first;
}

/* Returns the queue whose turn it is at `now_ns` (monotonic): of the queues in which connections
 * wait and that do not rest, the one whose last batch was longest ago. NULL: there is none; then
 * *rest_ns says how long until one of them has rested, UINT64_MAX: no connection waits. */
struct user_queue *user_queue_next(const struct user_queues *queues, uint64_t now_ns,
                                   uint64_t *rest_ns);

/* The queue had a batch from start_ns to end_ns. */
void user_queue_charge(struct user_queues *queues, struct user_queue *queue, uint64_t start_ns,
                       uint64_t end_ns);

/* Returns true if there are several queues: only then does time matter. */
static inline bool user_queues_are_several(const struct user_queues *queues)
{
    return queues->last && queues->last->next != queues->last;
}

#endif
