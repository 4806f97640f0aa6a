/*
 * farewell: a session whose client said BYE ends when every message is with its session that was
 * received from the same queue before: another worker may hold one, and be about to look for the
 * session.
 *
 * Each worker that receives has a turn: a number that is odd from before it looks into a queue
 * until it has found nothing there, or has given what it found to its session (which holds that, so
 * that its end waits). Who handles a BYE notes the turns that are odd; when all of them have moved
 * on, the session ends. A worker that sleeps in a receive stands still in an odd turn: after
 * TICK_MS the main thread nudges it.
 *
 * What leaves with a session whose process died is removed here, too, by the main thread.
 *
 * Threads: turns are their worker's own; the rest may be called by any thread, farewells_tick by
 * one. Locks: one of its own, under which nothing else that locks is called.
 */
#ifndef MQKV_SERVERK_SESSION_FAREWELL_H
#define MQKV_SERVERK_SESSION_FAREWELL_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "serverk/session/session.h"

struct farewells;

struct farewell_turn {
    _Atomic uint64_t turn;
    const _Atomic unsigned *waiting; /* sessions that wait for their end */
    struct farewells *farewells;
    uint32_t queues; /* bit i: the worker receives from queue i; constant once it does */
} __attribute__((aligned(128)));

/* For so many workers that receive. NULL: out of memory or descriptors (errno). */
struct farewells *farewells_create(unsigned receivers, struct session_table *sessions);

/* Ends the sessions that wait; no worker runs any more. NULL is harmless. */
void farewells_free(struct farewells *farewells);

/* A descriptor that is readable when farewells_tick is to be called. */
int farewells_timer(const struct farewells *farewells);

/* What wakes receiver i, if it sleeps in a receive. */
typedef void (*farewell_nudge)(void *context, unsigned receiver);
void farewells_set_nudge(struct farewells *farewells, farewell_nudge nudge, void *context);

/* The turn of receiver i, which receives from these queues (as bits). */
struct farewell_turn *farewells_turn(struct farewells *farewells, unsigned receiver,
                                     uint32_t queues);

/* Before a look into a queue. */
static inline void farewell_enter(struct farewell_turn *turn)
{
    uint64_t now = atomic_load_explicit(&turn->turn, memory_order_relaxed);
    atomic_store_explicit(&turn->turn, now | 1, memory_order_relaxed);
}

/* Ends the sessions whose wait is over. */
void farewells_go_on(struct farewells *farewells);

/* The worker holds no message that is not with its session. Harmless if it held none before. That a
 * session is not seen here that begins to wait at this moment does no harm: the timer looks as
 * well. */
static inline void farewell_leave(struct farewell_turn *turn)
{
    uint64_t now = atomic_load_explicit(&turn->turn, memory_order_relaxed);
    if (!(now & 1))
        return;
    atomic_store_explicit(&turn->turn, now + 1, memory_order_release);
    if (atomic_load_explicit(turn->waiting, memory_order_relaxed) > 0)
        farewells_go_on(turn->farewells);
}

/* Ends the session, held by the caller, for that reason: now, or when the receivers of these queues
 * (as bits) have moved on. */
void farewells_end(struct farewells *farewells, struct session *session, uint32_t queues,
                   enum session_end_reason reason);

/* A session_death_listener: what the process left besides is removed soon. */
void farewells_process_died(void *farewells, pid_t pid);

/* Goes on with what waits. */
void farewells_tick(struct farewells *farewells, const char *queue_name);

#endif
