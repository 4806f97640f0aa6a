/*
 * lane_plan: which request queues a daemon would like, and what it makes do with when the kernel's
 * limits are low. Numbers only; lanes.h creates them.
 */
#ifndef MQKV_SERVERK_LANES_LANE_PLAN_H
#define MQKV_SERVERK_LANES_LANE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "serverk/config/options.h"
#include "wire/limits.h"

#define LANE_PLAN_MAX_LANES      16u
#define LANE_PLAN_MAX_BULK_LANES 2u
#define LANE_PLAN_MAX_GUESTS     12u

/* Numbers of queues: lanes and bulk lanes, without a gap; guest lanes from LANE_PLAN_FIRST_GUEST
 * on; the read lane. */
#define LANE_PLAN_FIRST_GUEST (LANE_PLAN_MAX_LANES + LANE_PLAN_MAX_BULK_LANES)
#define LANE_PLAN_READ_LANE   (LANE_PLAN_FIRST_GUEST + LANE_PLAN_MAX_GUESTS)
#define LANE_PLAN_MAX_QUEUES  (LANE_PLAN_READ_LANE + 1)

/* Request queues may have this fraction of RLIMIT_MSGQUEUE: one of LANE_PLAN_SHARES. */
#define LANE_PLAN_SHARES 3u

/* The lanes of guests may have this fraction of it, as far as guests come: one of
 * LANE_PLAN_GUEST_SHARES. */
#define LANE_PLAN_GUEST_SHARES 8u

struct lane_plan {
    uint16_t lanes;      /* 1 or more */
    uint16_t bulk_lanes; /* 0: lanes take the largest messages themselves */
    struct wire_geometry lane;
    struct wire_geometry bulk;
};

/* Returns the plan that the mode would like, were there no limit on the bytes of queues. */
struct lane_plan lane_plan_wanted(enum lanes_mode mode, uint32_t workers,
                                  const struct wire_limits *limits);

/* Returns the best plan for the mode that leaves two thirds of RLIMIT_MSGQUEUE to the reply queues
 * of clients of the same user; if none does, the smallest there is. */
struct lane_plan lane_plan_first(enum lanes_mode mode, uint32_t workers,
                                 const struct wire_limits *limits);

/* Makes the plan the next smaller one; false if there is none. Bulk lanes give way first, then the
 * depth of lanes, then their number. */
bool lane_plan_degrade(struct lane_plan *plan);

/* Where other users may come: gives up what their lanes need, the second bulk lane, so that there
 * is no less for the reply queues of the daemon's own user. */
void lane_plan_leave_room(struct lane_plan *plan);

/* Returns the geometry of the next guest lane where all guests may take bytes_left bytes more: it
 * takes half of them at most, so that something is left for the next one; its messages are as large
 * as the largest lane's, if three fit. depth 0: there is no room for a lane. */
struct wire_geometry lane_plan_guest(const struct lane_plan *plan, uint64_t bytes_left);

/* Returns the bytes that the kernel will charge for all queues of the plan. */
uint64_t lane_plan_charge(const struct lane_plan *plan);

/* "8 lanes of 10 x 1024 bytes, 2 bulk lanes of 10 x 8192 bytes", for people; returns text. */
#define LANE_PLAN_TEXT_BYTES 128
char *lane_plan_describe(const struct lane_plan *plan, char text[LANE_PLAN_TEXT_BYTES]);

/* If less was granted than wanted, writes the sentence for the log: what was granted, what was
 * wanted, and the line that raises the limit. refusal: why the kernel refused a plan that the limit
 * allows. *shortfall is left alone if the plan is the wanted one. */
void lane_plan_explain(const struct lane_plan *granted, const struct lane_plan *wanted,
                       const struct wire_limits *limits, const char *refusal,
                       struct kv_error *shortfall);

#endif
