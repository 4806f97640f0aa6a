/*
 * parking: how many of the workers that share all lanes (--lanes auto) are active. Idle workers are
 * parked. An active worker that finds nothing to do parks too, unless it is the last one: the last
 * sleeps on the lanes themselves. So a message costs one wake-up, or none while messages arrive
 * fast enough, whatever the number of workers.
 *
 * A worker that has not come back to the lanes for PARKING_PATIENCE_MS or more, whatever keeps it
 * (a long scan, a disk that does not answer, another thread on its CPU), is away: it does not count
 * as active until it is back. Who looks for such workers is woken by a timer, which runs only while
 * a worker is active and does not sleep: an idle daemon has none. Workers that are served by their
 * messages pay for it with a look at their own place after each, and with a system call where they
 * wake up and the timer does not run.
 *
 * Invariant (under the lock): active + away + parked = all workers, and whenever parking_look has
 * returned, active >= 1 unless every worker is away. Hence no message waits for long while a worker
 * is idle, and at most one worker sleeps on the lanes.
 *
 * Threads: any; a place belongs to its worker, parking_look to one thread. Locks: one of its own,
 * under which nothing is called.
 */
#ifndef MQKV_SERVERK_RECEIVE_PARKING_H
#define MQKV_SERVERK_RECEIVE_PARKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PARKING_PATIENCE_MS 2u

struct parking;

enum parking_state {
    PARKING_ACTIVE,
    PARKING_ASLEEP, /* on the lanes; it counts as active */
    PARKING_PARKED,
    PARKING_AWAY
};

/* What parking knows of one worker. */
struct parking_place {
    _Atomic enum parking_state state;
    struct parking *parking;
    const _Atomic uint64_t *pulse; /* changes whenever the worker looks at the lanes */
    uint64_t seen;                 /* of the pulse, by the last parking_look */
} __attribute__((aligned(128)));

/* Makes the parking of `workers` workers, all of which start active; later at most max_active (>=
 * 1) are unparked together. NULL: out of memory or descriptors. */
struct parking *parking_create(unsigned workers, unsigned max_active);
void parking_free(struct parking *parking);

/* Returns the place of worker number `worker`. pulse: it must live as long as the parking is looked
 * after. */
struct parking_place *parking_place(struct parking *parking, unsigned worker,
                                    const _Atomic uint64_t *pulse);

/* Called by an active worker that found nothing to do. False: it is the last active worker, and
 * must watch the lanes itself. True: it was parked and is active again, or the parking is stopped;
 * it should look again. */
bool parking_park(struct parking_place *place);

/* To be called by an active worker before it sleeps on the lanes, and afterwards. */
void parking_fall_asleep(struct parking_place *place);
void parking_wake_up(struct parking_place *place);

/* Called by a worker that sees more messages than it can serve: unparks a worker, if one is parked
 * and the maximum is not reached. */
void parking_unpark(struct parking *parking);

/* The part of parking_come_back that a worker needs which is away. */
void parking_return(struct parking_place *place);

/* To be called by a worker after each message. True: the worker was away. */
static inline bool parking_come_back(struct parking_place *place)
{
    if (atomic_load_explicit(&place->state, memory_order_relaxed) != PARKING_AWAY)
        return false;
    parking_return(place);
    return true;
}

/* Returns a descriptor that becomes readable when parking_look is to be called; a read waits for
 * that. */
int parking_timer(const struct parking *parking);

/* Looks which workers are away; if none is active any more, unparks one. False: all are away, so
 * nobody looks at the lanes. */
bool parking_look(struct parking *parking);

/* Wakes every worker, and the thread that waits for the timer; from then on parking_park returns
 * true at once. */
void parking_stop(struct parking *parking);

struct parking_counts {
    unsigned active, away, parked;
    uint64_t all_away_ms; /* how long all workers have been away; 0: some are not */
};
struct parking_counts parking_counts(struct parking *parking);

#endif
