#include "clientk/combining/linger.h"

/* A wait takes at most this fraction of the last round trip, which is what a wait in vain costs
 * ... */
#define LINGER_SHARE 8u

/* ... but none below this, where two reads of the clock and a yield cost more than they gain ... */
#define LINGER_MIN_NS 1000u

/* ... and no wait beyond this, in which 64 woken threads can run on two CPUs. Threads that have not
 * come back by then are busy with something else. */
#define LINGER_MAX_NS 250000u

bool linger_matters(const struct linger *linger, unsigned calls)
{
    return calls > 1 || linger->expected > 1;
}

void linger_note(struct linger *linger, unsigned calls, uint64_t round_trip_ns)
{
    linger->expected = calls;
    linger->round_trip_ns = round_trip_ns;
}

uint64_t linger_time_ns(const struct linger *linger, unsigned calls)
{
    uint64_t time_ns = linger->round_trip_ns / LINGER_SHARE;
    if (calls >= linger->expected || time_ns < LINGER_MIN_NS)
        return 0;
    return time_ns < LINGER_MAX_NS ? time_ns : LINGER_MAX_NS;
}
