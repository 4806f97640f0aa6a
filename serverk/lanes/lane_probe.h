/*
 * lane_probe: whether the kernel grants the queues of a plan now, beside those that the user has
 * already.
 */
#ifndef MQKV_SERVERK_LANES_LANE_PROBE_H
#define MQKV_SERVERK_LANES_LANE_PROBE_H

#include "mqkv/error.h"
#include "serverk/lanes/lane_plan.h"

/* Makes queues like those of *plan for a moment, under names of this process below `base`, and of
 * the next smaller plan as long as the kernel refuses; *plan is then the one that it grants, and
 * *error tells why the one before was refused. KV_LIMIT, ...: it grants none. */
enum kv_status lane_probe(const char *base, struct lane_plan *plan, struct kv_error *error);

#endif
