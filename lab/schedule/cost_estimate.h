/*
 * cost_estimate: how long a message will probably keep a worker busy, told from the message alone:
 * kinds and number of its operations, the bytes of their values, how far a scan may go. For
 * ordering messages (schedule.h), not for timing them: what a store on a fast machine needs, in
 * round numbers.
 */
#ifndef MQKV_LAB_SCHEDULE_COST_ESTIMATE_H
#define MQKV_LAB_SCHEDULE_COST_ESTIMATE_H

#include <stdint.h>

#include "mqkv/slice.h"

/* Expected work of the message in ns; at least that of taking and answering it. Of a batch the
 * first operations count for all. What is no sound message is a quick refusal. UINT64_MAX: BYE,
 * which must not overtake what its session sent before. */
uint64_t cost_estimate_ns(struct kv_slice message);

#endif
