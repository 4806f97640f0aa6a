/*
 * farewell: when a session ends whose client sent BYE. Another worker may have received an earlier
 * message of the session from the same queue, and not have looked up the session yet. So the end
 * waits until every message that was received before the BYE has found its session.
 *
 * Each worker that receives has a pulse: a number, its beat, that is odd while the worker may have
 * a message without its session. The beat becomes odd before the worker looks into a queue, and
 * even when the queue was empty or the message holds its session. The worker that handles a BYE
 * notes which beats are odd; the session ends when all of them have changed. A worker that sleeps
 * in a receive keeps an odd beat: after TICK_MS the main thread nudges that worker.
 *
 * The main thread also removes here what a dead process left besides its sessions.
 *
 * Threads: a pulse is its worker's own; the rest may be called by any thread, farewells_tick by
 * one. Locks: one of its own, under which nothing else that locks is called.
 */
#ifndef MQKV_SERVERK_SESSION_FAREWELL_H
#define MQKV_SERVERK_SESSION_FAREWELL_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "serverk/session/session_table.h"

struct farewells;

struct farewell_pulse {
    _Atomic uint64_t beat;
    const _Atomic unsigned *waiting; /* sessions that wait for their end */
    struct farewells *farewells;
    uint32_t queues; /* bit i: the worker receives from queue i; constant once it does */
} __attribute__((aligned(128)));

/* For `receivers` workers that receive, and one that may stand in for them (the steward). NULL: out
 * of memory or descriptors (errno). */
struct farewells *farewells_create(unsigned receivers, struct session_table *sessions);

/* Ends the sessions that wait. No worker may run any more. NULL is harmless. */
void farewells_free(struct farewells *farewells);

/* Returns a descriptor that becomes readable when farewells_tick should be called. */
int farewells_timer(const struct farewells *farewells);

/* Wakes the receiver if it sleeps in a receive. */
typedef void (*farewell_nudge)(void *context, unsigned receiver);
void farewells_set_nudge(struct farewells *farewells, farewell_nudge nudge, void *context);

/* The pulse of the receiver of that number, which receives from `queues` (as bits). The pulse
 * behind the last receiver's belongs to the one that stands in for the others. */
struct farewell_pulse *farewells_pulse(struct farewells *farewells, unsigned receiver,
                                       uint32_t queues);

/* Tells that the pulse's worker is about to look into a queue. */
static inline void farewell_enter(struct farewell_pulse *pulse)
{
    uint64_t now = atomic_load_explicit(&pulse->beat, memory_order_relaxed);
    atomic_store_explicit(&pulse->beat, now | 1, memory_order_relaxed);
}

/* Ends the sessions whose wait is over. */
void farewells_go_on(struct farewells *farewells);

/* Tells that the pulse's worker has no message without its session any more; harmless if it had
 * none before. This call may miss a session that begins to wait at this moment; the timer finds
 * it. */
static inline void farewell_leave(struct farewell_pulse *pulse)
{
    uint64_t now = atomic_load_explicit(&pulse->beat, memory_order_relaxed);
    if (!(now & 1))
        return;
    atomic_store_explicit(&pulse->beat, now + 1, memory_order_release);
    if (atomic_load_explicit(pulse->waiting, memory_order_relaxed) > 0)
        farewells_go_on(pulse->farewells);
}

/* Ends the session, held by the caller, for that reason: now, or when the receivers of these queues
 * (as bits) have moved on. */
void farewells_end(struct farewells *farewells, struct session *session, uint32_t queues,
                   enum session_end_reason reason);

/* A session_death_listener: what else the process left is removed soon. */
void farewells_process_died(void *farewells, pid_t pid);

/* Returns a number that changes whenever a worker, other than the one that stands in, looks into a
 * queue. */
uint64_t farewells_progress(const struct farewells *farewells);

/* Ends sessions whose wait is over, nudges sleeping receivers, removes what dead processes left. */
void farewells_tick(struct farewells *farewells, const char *queue_name);

#endif
