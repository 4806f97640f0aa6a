/*
 * turn_share: one user's share of a thread's time, and its connections that have something to do.
 * Each turn of the thread (redis_turn.h) is for the connections of one user; users take turns.
 *
 * A user whose turn took long, while others were active too, rests for as long as it took times
 * their number: so that one who sends a request after each reply need not wait for such a turn
 * every time. A user that is alone never rests.
 *
 * Threads: all shares of a thread belong to it.
 */
#ifndef MQKV_KRESP_BRIDGE_TURN_SHARE_H
#define MQKV_KRESP_BRIDGE_TURN_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/session/redis_user.h"

/* A user is active for so long after its last turn. */
#define TURN_SHARE_ACTIVE_NS (5u * 1000 * 1000)

/* Turns that took less are followed by no rest, and no rest is longer. */
#define TURN_SHARE_SHORT_NS    (50u * 1000)
#define TURN_SHARE_MAX_REST_NS (100u * 1000 * 1000)

struct redis_connection;

/* Connections in a row, each in one at a time. */
struct turn_queue {
    struct redis_connection *first, *last;
};

/* Plain data of this module, but for connections. */
struct turn_share {
    struct turn_share *next;        /* in a ring of all of the thread */
    struct redis_user *user;        /* while it has connections */
    size_t connections;             /* of the user, in this thread; the thread counts them */
    struct turn_queue small, large; /* by what a connection is expected to ask for */
    uint64_t active_ns;             /* when its last turn ended */
    uint64_t rests_until_ns;
};

/* A thread's. Start from {0}. */
struct turn_shares {
    struct turn_share *last; /* of the ring: the one that had the last turn; NULL: it is empty */
};

/* The share of the user, made if need be; NULL: no memory. */
struct turn_share *turn_share_of(struct turn_shares *shares, struct redis_user *user);

/* Removes a share that has no connections any more. */
void turn_share_remove(struct turn_shares *shares, struct turn_share *share);

/* The connection waits for a turn. */
void turn_share_push(struct turn_share *share, struct redis_connection *connection);

/* Behind the last of the queue. */
void turn_queue_push(struct turn_queue *queue, struct redis_connection *connection);

/* The connection of the queue that has waited longest does so no more; NULL: none waits. */
struct redis_connection *turn_queue_pop(struct turn_queue *queue);

static inline bool turn_share_waits(const struct turn_share *share)
{
    return share->small.first || share->large.first;
}

/* Whose turn it is at `now_ns` (monotonic): of the shares that have connections which wait, and do
 * not rest, the one whose last turn was longest ago. NULL: none; then *rest_ns says how long until
 * one of them has rested, UINT64_MAX: none waits. */
struct turn_share *turn_share_next(const struct turn_shares *shares, uint64_t now_ns,
                                   uint64_t *rest_ns);

/* The share had a turn. */
void turn_share_charge(struct turn_shares *shares, struct turn_share *share, uint64_t start_ns,
                       uint64_t end_ns);

/* Whether there are several: only then does time matter. */
static inline bool turn_shares_are_several(const struct turn_shares *shares)
{
    return shares->last && shares->last->next != shares->last;
}

#endif
