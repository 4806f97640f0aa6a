/*
 * lane_plan: which request queues a daemon would like, and what it makes do with when the kernel's
 * limits are low. Numbers only; lanes.h creates them.
 */
#ifndef MQKV_SERVERK_LANE_PLAN_H
#define MQKV_SERVERK_LANE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "serverk/options.h"
#include "wire/limits.h"

#define LANE_PLAN_MAX_LANES      16u
#define LANE_PLAN_MAX_BULK_LANES 2u
#define LANE_PLAN_MAX_QUEUES     (LANE_PLAN_MAX_LANES + LANE_PLAN_MAX_BULK_LANES)

/* One of so many shares of RLIMIT_MSGQUEUE is for request queues. */
#define LANE_PLAN_SHARES 3u

struct lane_plan {
    uint16_t lanes;      /* 1 or more */
    uint16_t bulk_lanes; /* 0: lanes take the largest messages themselves */
    struct wire_geometry lane;
    struct wire_geometry bulk;
};

/* What the mode would like, were there no limit on the bytes of queues. */
struct lane_plan lane_plan_wanted(enum lanes_mode mode, uint32_t workers,
                                  const struct wire_limits *limits);

/* The best plan for the mode that leaves two thirds of RLIMIT_MSGQUEUE to the reply queues of clients
 * of the same user; if none does, the smallest there is. */
struct lane_plan lane_plan_first(enum lanes_mode mode, uint32_t workers,
                                 const struct wire_limits *limits);

/* The next smaller plan; false if there is none. Bulk lanes give way first, then the depth of
 * lanes, then their number. */
bool lane_plan_degrade(struct lane_plan *plan);

/* Bytes the kernel will charge for all its queues. */
uint64_t lane_plan_charge(const struct lane_plan *plan);

/* "8 lanes of 10 x 1024 bytes, 2 bulk lanes of 10 x 8192 bytes", for people; returns text. */
#define LANE_PLAN_TEXT_BYTES 128
char *lane_plan_describe(const struct lane_plan *plan, char text[LANE_PLAN_TEXT_BYTES]);

#endif
