/*
 * lane_names: under which names a daemon's own lanes and bulk lanes are created. The claim
 * (claim.h) is held meanwhile, so that what is there of our uid is a dead daemon's. Anybody can
 * make queues of other names of ours: a number that is taken is skipped, and a lane gets another
 * one. Only lane 0 has no other name: it is NAME.
 *
 * Threads: one.
 */
#ifndef MQKV_SERVERK_LANES_LANE_NAMES_H
#define MQKV_SERVERK_LANES_LANE_NAMES_H

#include <mqueue.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "wire/queue.h"

/* Numbers that are tried, of lanes and of bulk lanes each: 0 .. LANE_NAMES-1. */
#define LANE_NAMES 64u

struct lane_names {
    const char *base; /* the caller's */
    /* As bits: numbers whose queues are not ours. Each was told in the log. */
    uint64_t foreign_lanes;
    uint64_t foreign_bulk_lanes;
};

/* Removes what a dead daemon of this user left under any of the names, and notes what others have.
 * *removed counts queues. KV_DENIED: NAME itself belongs to another user; KV_IO. */
enum kv_status lane_names_remove_stale(struct lane_names *names, unsigned *removed,
                                       struct kv_error *error);

/* Creates a queue (WIRE_LANE or WIRE_BULK_LANE), nonblocking, under the first free number from
 * *number on (lane 0: that one only), and tells the number. As wire_queue_create does; KV_DENIED:
 * somebody took NAME; KV_EXISTS if others have all the names. */
enum kv_status lane_names_create(struct lane_names *names, enum wire_queue_role role,
                                 struct wire_geometry geometry, mode_t mode, unsigned *number,
                                 mqd_t *queue, struct kv_error *error);

/* Checks, without the claim, to whom NAME belongs: KV_DENIED if that is another user; KV_IO. */
enum kv_status lane_names_check(const char *base, struct kv_error *error);

#endif
