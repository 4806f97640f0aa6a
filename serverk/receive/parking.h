/*
 * crew: how many of the workers that share all lanes (--lanes auto) are awake. Idle workers are
 * parked; of those that are on duty, one that finds nothing to do parks too, unless it is the last:
 * the last sleeps on the lanes themselves. So one wake-up is paid for a message, and none while
 * messages come fast enough, whatever the number of workers.
 *
 * Invariant (under the lock): on_duty + away + parked = all workers, and on_duty >= 1 unless every
 * worker is away in a long operation. Hence no message waits for a worker while another is idle for
 * ever; and at most one worker sleeps on the lanes.
 */
#ifndef MQKV_SERVERK_RECEIVE_PARKING_H
#define MQKV_SERVERK_RECEIVE_PARKING_H

#include <stdbool.h>

struct crew;

/* All workers start on duty. At most max_on_duty are called on duty together (>= 1). NULL: out of
 * memory. */
struct crew *crew_create(unsigned workers, unsigned max_on_duty);
void crew_free(struct crew *crew);

/* By a worker on duty that found nothing to do. False: it is the last on duty, and must watch the
 * lanes itself. True: it was parked, and is on duty again (or the crew is stopped): look again. */
bool crew_rest(struct crew *crew);

/* By a worker that sees more waiting than it can serve: one parked worker, if there is one and the
 * maximum is not reached, comes on duty. */
void crew_call(struct crew *crew);

/* Around something long: in between the worker does not count as on duty, and if it was the last,
 * another one takes over. */
void crew_leave(struct crew *crew);
void crew_return(struct crew *crew);

/* Wakes everybody; from then on crew_rest returns true at once. */
void crew_stop(struct crew *crew);

struct crew_counts {
    unsigned on_duty, away, parked;
};
struct crew_counts crew_counts(struct crew *crew);

#endif
