#include "policy.h"

/* A start that is fair, and slow: first come, first served. */
uint64_t policy_delay_ns(unsigned priority, uint64_t work_ns)
{
    (void)priority, (void)work_ns;
    return 0;
}
