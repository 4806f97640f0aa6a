#include "serverk/execute/allowance.h"

#include "common/clock.h"

/* Waking another worker takes 20 us; the clock that is looked at goes on every 1 to 4 ms. */
#define LONG_MS 2u

#define NS_PER_MS 1000000u

void allowance_begin(struct allowance *allowance, const struct session *session,
                     const struct wire_header *request, uint64_t received_ns, uint32_t ms)
{
    uint64_t received_ms = received_ns / NS_PER_MS;
    *allowance = (struct allowance){.session = session,
                                    .deadline_ms = request->deadline_ms,
                                    .long_at_ms = received_ms + LONG_MS,
                                    .until_ms = ms > 0 ? received_ms + ms : 0,
                                    .write_bytes_left = ALLOWANCE_WRITE_BYTES};
}

enum kv_status allowance_look(struct allowance *allowance, bool *takes_long)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    *takes_long = now_ms >= allowance->long_at_ms;
    allowance->light = 0;
    if (allowance->verdict != KV_OK)
        return allowance->verdict;
    if (allowance->deadline_ms != 0 && now_ms >= allowance->deadline_ms)
        allowance->verdict = KV_DEADLINE;
    else if (now_ms >= allowance->until_ms || allowance->write_bytes_left == 0 ||
             session_is_lost(allowance->session))
        allowance->verdict = KV_OVERLOADED;
    return allowance->verdict;
}
