/*
 * own_lanes: the queues that a daemon always has: lanes, from number 0 on, and the bulk lanes
 * behind them. They are created by a plan, or by the first smaller one that the kernel grants; and
 * made anew under their old descriptors where somebody took their names away.
 *
 * Threads: one at a time; own_lanes_renew and own_lanes_empty while others receive from the queues.
 */
#ifndef MQKV_SERVERK_LANES_OWN_LANES_H
#define MQKV_SERVERK_LANES_OWN_LANES_H

#include <mqueue.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "serverk/lanes/lane_names.h"
#include "serverk/lanes/lane_plan.h"

struct own_lane {
    bool linked;
    uint16_t number; /* in its name; as WELCOME tells it */
};

struct own_lanes {
    struct lane_plan plan;
    struct lane_names names;
    bool admits_others; /* lane 0 is theirs where there are more (own_lanes_have_door) */
    mode_t mode;        /* of what others may send to; the rest has 0600 */
    gid_t group;        /* (gid_t)-1: as created */
    struct own_lane lanes[LANE_PLAN_MAX_LANES + LANE_PLAN_MAX_BULK_LANES];
    unsigned count;
    mqd_t *queues; /* of the same numbers; the caller's array */
};

/* Creates all queues, nonblocking, locked for this process (wire_lock_lane). The caller has set
 * everything but lanes and count, and has the claim. If the plan is made smaller, *error tells why,
 * beside KV_OK. KV_DENIED, KV_EXISTS (others have the names), KV_LIMIT, KV_IO: there is no queue
 * then. */
enum kv_status own_lanes_open(struct own_lanes *own, struct kv_error *error);

/* Removes the names, and with own_lanes_close the queues. */
void own_lanes_unlink(struct own_lanes *own);
void own_lanes_close(struct own_lanes *own);

/* Returns whether other users are to have lanes of their own, beside lane 0, their door. With a
 * single lane everybody's messages come through that one. */
bool own_lanes_have_door(const struct own_lanes *own);

/* Gives what others may send to this mode, and this group. KV_DENIED, KV_IO. */
enum kv_status own_lanes_set_mode(struct own_lanes *own, mode_t mode, gid_t group,
                                  struct kv_error *error);

/* Makes the queues anew whose names are gone; their descriptors keep their numbers. old[queue] is
 * set, also before an error, for each that is another queue now: a descriptor of the old one, which
 * is the caller's (own_lanes_empty). Who sleeps in a receive or an epoll set has to be told. As
 * own_lanes_open; KV_DENIED, too, if somebody else has NAME. */
enum kv_status own_lanes_renew(struct own_lanes *own, mqd_t *old, struct kv_error *error);

/* Makes the descriptor `queue` one of the queue `fresh`, and closes that one; what waits in the
 * queue is moved there, as far as there is room, and its locks are gone. Returns another descriptor
 * of the old queue; -1 with errno: nothing was changed. */
mqd_t own_lanes_exchange(mqd_t queue, mqd_t fresh);

/* Moves what has come to the old queue since, and closes it. */
void own_lanes_empty(mqd_t old, mqd_t queue);

#endif
