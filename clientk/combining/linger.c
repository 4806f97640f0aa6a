#include "clientk/combining/linger.h"

/* At most this share of the last round trip, which is what a wait in vain costs ... */
#define LINGER_SHARE 8u

/* ... not below this, where two reads of the clock and a yield cost more than they gain ... */
#define LINGER_MIN_NS 1000u

/* ... and no longer than this: enough for 64 woken threads to run on two CPUs. Threads that have
 * not come back by then are busy otherwise. */
#define LINGER_MAX_NS 250000u

bool linger_matters(const struct linger *linger, unsigned calls)
{
    return calls > 1 || linger->expected > 1;
}

void linger_note(struct linger *linger, unsigned calls, uint64_t round_ns)
{
    linger->expected = calls;
    linger->round_ns = round_ns;
}

uint64_t linger_time_ns(const struct linger *linger, unsigned calls)
{
    uint64_t time_ns = linger->round_ns / LINGER_SHARE;
    if (calls >= linger->expected || time_ns < LINGER_MIN_NS)
        return 0;
    return time_ns < LINGER_MAX_NS ? time_ns : LINGER_MAX_NS;
}
