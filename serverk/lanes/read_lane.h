/*
 * read_lane: the request queue NAME.read, for those who may only read: mode 0620, so that the
 * kernel lets its group send to it, and to no other queue of the daemon. HELLOs come there, and
 * every other message of the sessions that they begin; what such a session may do is in
 * session/access.h.
 *
 * Threads: one opens and closes. The counters: any.
 */
#ifndef MQKV_SERVERK_LANES_READ_LANE_H
#define MQKV_SERVERK_LANES_READ_LANE_H

#include <mqueue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "serverk/lanes/lane_plan.h"

struct read_lane {
    const char *base; /* NULL: there is none */
    mqd_t queue;
    bool linked;
    gid_t group;
    struct wire_geometry geometry;
    _Atomic unsigned sessions;
    _Atomic uint64_t messages, garbage;
};

/* Removes what a dead daemon of this user left under the name; the log tells of another user's
 * queue of that name. Returns the number of queues that were removed. */
unsigned read_lane_remove_stale(const char *base);

/* Creates the queue for the group `group`; base is kept. KV_DENIED: another user has the name;
 * KV_LIMIT, KV_IO. */
enum kv_status read_lane_open(struct read_lane *lane, const char *base, gid_t group,
                              const struct lane_plan *plan, struct kv_error *error);

/* Makes the queue anew, whose name is gone. *old as own_lanes_renew has it; as read_lane_open. */
enum kv_status read_lane_renew(struct read_lane *lane, const struct lane_plan *plan, mqd_t *old,
                               struct kv_error *error);

/* Harmless if there is none. */
void read_lane_unlink(struct read_lane *lane);
void read_lane_close(struct read_lane *lane);

#endif
