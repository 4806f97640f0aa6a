/*
 * company: how long the leader of a channel waits before it packs the next message, for the threads that
 * the last one served to come back with their next requests.
 *
 * Without it a channel of n threads in a closed loop falls apart into halves that take turns: while the
 * message of one half is on its way, the requests of the other arrive, and they go off as soon as it is
 * answered, when the first half has only been woken. So each message has half of the requests, twice as
 * many are paid for, and with `--sync always` each of them waits for a sync of its own. A wait that is
 * short beside the time of a message costs little where nobody comes and brings the halves together
 * where they do. Database servers know it as the commit delay of a group commit (DeWitt, Katz, Olken,
 * Shapiro, Stonebraker, Wood: Implementation techniques for main memory database systems, SIGMOD 1984).
 *
 * Threads: of the leader alone.
 */
#ifndef MQKV_CLIENTK_COMPANY_H
#define MQKV_CLIENTK_COMPANY_H

#include <stdbool.h>
#include <stdint.h>

/* Start from {0}. */
struct company {
    unsigned expected; /* requests that one message may have, by what was there at the last */
    uint64_t round_ns; /* how long the last message of several took */
};

/* Whether the round of a message that is sent now, with so many requests there, is to be timed: for a
 * thread that is alone nobody reads a clock. */
bool company_matters(const struct company *company, unsigned requests);

/* A message was answered round_ns after it was packed; so many of the requests that are there by now,
 * finished or not, fit into one. */
void company_note(struct company *company, unsigned requests, uint64_t round_ns);

/* How long to wait for more than the requests that are there. 0: not at all. */
uint64_t company_patience_ns(const struct company *company, unsigned requests);

#endif
