/*
 * linger: how long a combiner waits for more calls before it packs the next message, so that the
 * threads that the last message served can come back with their next calls (the commit delay of a
 * group commit, Nagle's algorithm).
 *
 * Without such a wait a combiner of n threads in a closed loop falls into two halves that
 * alternate: while the message of one half is in flight, the calls of the other half arrive, and
 * they are sent as soon as that message is answered, when the first half has only just been woken.
 * Each message then has half of the calls, twice as many messages are sent, and with `--sync
 * always` each waits for a sync of its own. A wait that is short compared with the round trip of a
 * message costs little if no call arrives, and otherwise joins the halves (DeWitt, Katz, Olken,
 * Shapiro, Stonebraker, Wood: Implementation techniques for main memory database systems, SIGMOD
 * 1984).
 *
 * Threads: the leader alone.
 */
#ifndef MQKV_CLIENTK_COMBINING_LINGER_H
#define MQKV_CLIENTK_COMBINING_LINGER_H

#include <stdbool.h>
#include <stdint.h>

/* Start from {0}. */
struct linger {
    unsigned expected;      /* calls to expect in a message, as the last one had */
    uint64_t round_trip_ns; /* how long the last message of several calls took */
};

/* Returns true if the round trip of a message that is sent now, while `calls` calls wait, is to be
 * timed. A thread that is alone reads no clock. */
bool linger_matters(const struct linger *linger, unsigned calls);

/* Notes that a message was answered round_trip_ns after it was packed. `calls`: how many of the
 * calls that wait by now, finished or not, fit into one message. */
void linger_note(struct linger *linger, unsigned calls, uint64_t round_trip_ns);

/* Returns how long to wait for more calls while `calls` calls wait, in nanoseconds; 0: not at
 * all. */
uint64_t linger_time_ns(const struct linger *linger, unsigned calls);

#endif
