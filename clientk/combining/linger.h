/*
 * linger: how long a combiner waits for more calls before it packs the next message: for the threads
 * that the last one served to come back with their next calls.
 *
 * Without it a combiner of n threads in a closed loop falls apart into halves that take turns: while the
 * message of one half is on its way, the calls of the other arrive, and they go off as soon as it is
 * answered, when the first half has only been woken. So each message has half of the calls, twice as
 * many are paid for, and with `--sync always` each of them waits for a sync of its own. A wait that is
 * short beside the time of a message costs little where nobody comes and brings the halves together
 * where they do. Database servers know it as the commit delay of a group commit (DeWitt, Katz, Olken,
 * Shapiro, Stonebraker, Wood: Implementation techniques for main memory database systems, SIGMOD 1984).
 *
 * Threads: of the leader alone.
 */
#ifndef MQKV_CLIENTK_COMBINING_LINGER_H
#define MQKV_CLIENTK_COMBINING_LINGER_H

#include <stdbool.h>
#include <stdint.h>

/* Start from {0}. */
struct linger {
    unsigned expected; /* calls that one message may have, by what was there at the last */
    uint64_t round_ns; /* how long the last message of several took */
};

/* Whether the round of a message that is sent now, with so many calls there, is to be timed: for a
 * thread that is alone nobody reads a clock. */
bool linger_matters(const struct linger *linger, unsigned calls);

/* A message was answered round_ns after it was packed; so many of the calls that are there by now,
 * finished or not, fit into one. */
void linger_note(struct linger *linger, unsigned calls, uint64_t round_ns);

/* How long to wait for more than the calls that are there. 0: not at all. */
uint64_t linger_time_ns(const struct linger *linger, unsigned calls);

#endif
