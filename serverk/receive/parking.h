/*
 * parking: how many of the workers that share all lanes (--lanes auto) are active. Idle workers are
 * parked. An active worker that finds nothing to do parks too, unless it is the last one: the last
 * sleeps on the lanes themselves. So a message costs one wake-up, or none while messages arrive
 * fast enough, whatever the number of workers.
 *
 * Invariant (under the lock): active + in_long + parked = all workers, and active >= 1 unless every
 * worker is in a long operation. Hence no message waits for ever while a worker is idle, and at
 * most one worker sleeps on the lanes.
 *
 * Threads: any. Locks: one of its own, under which nothing is called.
 */
#ifndef MQKV_SERVERK_RECEIVE_PARKING_H
#define MQKV_SERVERK_RECEIVE_PARKING_H

#include <stdbool.h>

struct parking;

/* All workers start active; later at most max_active (>= 1) are unparked together. NULL: out of
 * memory. */
struct parking *parking_create(unsigned workers, unsigned max_active);
void parking_free(struct parking *parking);

/* Called by an active worker that found nothing to do. False: it is the last active worker, and
 * must watch the lanes itself. True: it was parked and is active again, or the parking is stopped;
 * it should look again. */
bool parking_park(struct parking *parking);

/* Called by a worker that sees more messages than it can serve: unparks a worker, if one is parked
 * and the maximum is not reached. */
void parking_unpark(struct parking *parking);

/* Around a long operation: the worker does not count as active during it; if it was the last active
 * worker, another is unparked. */
void parking_begin_long(struct parking *parking);
void parking_end_long(struct parking *parking);

/* Wakes every worker; from then on parking_park returns true at once. */
void parking_stop(struct parking *parking);

struct parking_counts {
    unsigned active, in_long, parked;
};
struct parking_counts parking_counts(struct parking *parking);

#endif
