#include "serverk/execute/allowance.h"

#include "common/assert/assert.h"
#include "common/time/clock.h"

enum kv_status allowance_look(struct allowance *allowance)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    allowance->light = 0;
    if (allowance->verdict != KV_OK)
        return allowance->verdict;
    if (allowance->deadline_ms != 0 && now_ms >= allowance->deadline_ms)
        allowance->verdict = KV_DEADLINE;
    else if (now_ms >= allowance->until_ms || allowance->write_bytes_left == 0 ||
             session_is_lost(allowance->session))
        allowance->verdict = KV_OVERLOADED;
    KV_ASSERT(allowance->write_bytes_left <= ALLOWANCE_WRITE_BYTES);
    return allowance->verdict;
}
