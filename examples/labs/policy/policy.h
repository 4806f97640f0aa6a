/*
 * policy: which of the requests that wait comes first. A request is due so long after it was
 * received as policy_delay_ns says, and the one due first is served first.
 */
#ifndef LAB_POLICY_H
#define LAB_POLICY_H

#include <stdint.h>

#define POLICY_MAX_PRIORITY 31u
#define POLICY_PATIENCE_NS  UINT64_C(100000000)

/* Returns how long after it was received a request is due, in nanoseconds: 0 .. POLICY_PATIENCE_NS,
 * so that nobody is overtaken by who came so much later.
 *
 *   priority   0, the lowest, to POLICY_MAX_PRIORITY; above, it counts as that
 *   work_ns    how long it is expected to take
 *
 * It should make the mean response time, weighted with 1 + priority, small. */
uint64_t policy_delay_ns(unsigned priority, uint64_t work_ns);

#endif
