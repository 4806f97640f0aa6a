#include "serverk/lanes/lane_plan.h"

#include <stdio.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/text/parse.h"

/* Lanes of 10 x 1024 for requests, 10 x 8192 for large ones: what the kernel grants by default.
 * Senders to a full queue sleep, so deeper ones pay where they are granted, up to 32 messages (past
 * 50 they no longer do). */
#define LANE_BYTES        1024u
#define BULK_BYTES        8192u
#define MAX_DEPTH         32u
#define AUTO_LANES        8u
#define SMALL_DEPTH       4u
#define LARGE_GUEST_DEPTH 3u
#define SMALL_GUEST_DEPTH 2u

static uint64_t smaller_count(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct wire_geometry geometry_within(const struct wire_limits *limits,
                                            uint32_t message_bytes)
{
    return (struct wire_geometry){.depth = (uint16_t)smaller_count(limits->msg_max, MAX_DEPTH),
                                  .message_bytes =
                                      (uint32_t)smaller_count(limits->msgsize_max, message_bytes)};
}

struct lane_plan lane_plan_wanted(enum lanes_mode mode, uint32_t workers,
                                  const struct wire_limits *limits)
{
    if (mode == LANES_SHARED)
        return (struct lane_plan){.lanes = 1, .lane = geometry_within(limits, BULK_BYTES)};
    return (struct lane_plan){
        .lanes =
            mode == LANES_AUTO ? AUTO_LANES : (uint16_t)smaller_count(workers, LANE_PLAN_MAX_LANES),
        .bulk_lanes = mode == LANES_AUTO || workers > 1 ? LANE_PLAN_MAX_BULK_LANES : 1,
        .lane = geometry_within(limits, LANE_BYTES),
        .bulk = geometry_within(limits, BULK_BYTES)};
}

struct lane_plan lane_plan_first(enum lanes_mode mode, uint32_t workers,
                                 const struct wire_limits *limits)
{
    struct lane_plan plan = lane_plan_wanted(mode, workers, limits);
    while (lane_plan_charge(&plan) > limits->msgqueue_bytes / LANE_PLAN_SHARES)
        if (!lane_plan_degrade(&plan))
            break;
    return plan;
}

bool lane_plan_degrade(struct lane_plan *plan)
{
    KV_ASSERT(plan->lanes > 0 && plan->lane.depth > 0);
    if (plan->bulk_lanes > 1)
        plan->bulk_lanes = 1;
    else if (plan->bulk_lanes == 1 && plan->bulk.depth > SMALL_DEPTH)
        plan->bulk.depth = SMALL_DEPTH;
    else if (plan->bulk_lanes == 1 && plan->bulk.depth > 1)
        plan->bulk.depth /= 2;
    else if (plan->lane.depth > SMALL_DEPTH)
        plan->lane.depth = SMALL_DEPTH;
    else if (plan->lanes > 1)
        plan->lanes /= 2;
    else if (plan->lane.depth > 1)
        plan->lane.depth /= 2;
    else
        return false;
    return true;
}

void lane_plan_leave_room(struct lane_plan *plan)
{
    if (plan->bulk_lanes > 1)
        plan->bulk_lanes = 1;
}

/* Makes the lane as deep as `bytes` bytes allow; depth 0: that would be shallower than `least`. */
static struct wire_geometry deepest(struct wire_geometry lane, uint16_t least, uint64_t bytes)
{
    while (lane.depth >= least && wire_geometry_charge(lane) > bytes)
        lane.depth--;
    if (lane.depth < least)
        lane.depth = 0;
    return lane;
}

struct wire_geometry lane_plan_guest(const struct lane_plan *plan, uint64_t bytes_left)
{
    struct wire_geometry large = plan->lane;
    if (plan->bulk_lanes > 0)
        large.message_bytes = plan->bulk.message_bytes;
    struct wire_geometry guest = deepest(large, LARGE_GUEST_DEPTH, bytes_left / 2);
    struct wire_geometry small = plan->lane;
    if (small.depth > SMALL_DEPTH)
        small.depth = SMALL_DEPTH;
    if (guest.depth == 0)
        guest = deepest(small, SMALL_GUEST_DEPTH, bytes_left / 2);
    if (guest.depth == 0)
        guest = deepest(small, 1, bytes_left);
    KV_ASSERT(guest.depth == 0 || wire_geometry_charge(guest) <= bytes_left);
    return guest;
}

uint64_t lane_plan_charge(const struct lane_plan *plan)
{
    uint64_t bulk = plan->bulk_lanes ? plan->bulk_lanes * wire_geometry_charge(plan->bulk) : 0;
    return plan->lanes * wire_geometry_charge(plan->lane) + bulk;
}

char *lane_plan_describe(const struct lane_plan *plan, char text[LANE_PLAN_TEXT_BYTES])
{
    char lanes[32], bulk_lanes[32];
    format_count(plan->lanes, "lane", lanes);
    format_count(plan->bulk_lanes, "bulk lane", bulk_lanes);
    if (plan->bulk_lanes == 0)
        snprintf(text, LANE_PLAN_TEXT_BYTES, "%s of %u x %u bytes", lanes, plan->lane.depth,
                 plan->lane.message_bytes);
    else
        snprintf(text, LANE_PLAN_TEXT_BYTES, "%s of %u x %u bytes, %s of %u x %u bytes", lanes,
                 plan->lane.depth, plan->lane.message_bytes, bulk_lanes, plan->bulk.depth,
                 plan->bulk.message_bytes);
    return text;
}

void lane_plan_explain(const struct lane_plan *granted, const struct lane_plan *wanted,
                       const struct wire_limits *limits, const char *refusal,
                       struct kv_error *shortfall)
{
    char granted_text[LANE_PLAN_TEXT_BYTES], wanted_text[LANE_PLAN_TEXT_BYTES];
    unsigned long long wanted_bytes = lane_plan_charge(wanted);
    unsigned long long enough = wanted_bytes * LANE_PLAN_SHARES;
    if (lane_plan_charge(granted) >= wanted_bytes)
        return;
    lane_plan_describe(granted, granted_text);
    lane_plan_describe(wanted, wanted_text);
    if (enough <= limits->msgqueue_bytes)
        kv_error_set(shortfall, KV_LIMIT, "request queues: %s, instead of %s: %s", granted_text,
                     wanted_text, refusal);
    else
        kv_error_set(shortfall, KV_LIMIT,
                     "request queues: %s, instead of %s: those take %llu bytes, more than a third "
                     "of the %llu that this user may have in message queues (RLIMIT_MSGQUEUE). "
                     "Raise it: `ulimit -q %llu` in the shell that starts serverk, or "
                     "LimitMSGQUEUE=%llu in a systemd unit",
                     granted_text, wanted_text, wanted_bytes,
                     (unsigned long long)limits->msgqueue_bytes, enough, enough);
}
