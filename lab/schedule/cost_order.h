/*
 * cost_order: --sched cost: the schedule as the order of messages of a daemon (message_order.h).
 * Each message costs what cost_estimate.h says.
 */
#ifndef MQKV_LAB_SCHEDULE_COST_ORDER_H
#define MQKV_LAB_SCHEDULE_COST_ORDER_H

#include "serverk/receive/message_order.h"

/* For `workers` workers that take messages of at most message_bytes, of tenants 0 .. tenants-1, of
 * which `capacity` may wait. NULL: out of memory. */
struct message_order *cost_order_create(unsigned capacity, unsigned tenants, size_t message_bytes,
                                        unsigned workers);

#endif
