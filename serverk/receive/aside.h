/*
 * aside: messages that the steward (dispatch/steward.h) has taken from the lanes while all workers
 * are away, and that are not for it to execute. Workers take them before any other, those of each
 * queue in the order in which they came. They lie in the daemon's memory, as many as its sessions
 * may have unanswered by their credits, and ASIDE_MAX_BYTES at most, of which a tenant (shares.h)
 * has no more than it leaves to the others.
 *
 * Threads: any. Locks: one of its own, under which nothing is called.
 */
#ifndef MQKV_SERVERK_RECEIVE_ASIDE_H
#define MQKV_SERVERK_RECEIVE_ASIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "serverk/session/session.h"

#define ASIDE_MAX_BYTES (16u << 20)

/* Private but for waiting. */
struct aside {
    _Atomic unsigned waiting; /* messages */
    int event;                /* readable while some wait */
    struct aside_lists *lists;
};

/* NULL: out of memory or descriptors. */
struct aside *aside_create(void);

/* To be called when no message waits any more. NULL is harmless. */
void aside_free(struct aside *aside);

/* Adds a copy of `message`, which came from `queue`, and takes over the caller's reference to its
 * session. False: there is no room for more of its tenant, or the session has more unanswered
 * messages than credits; the reference is still the caller's to release. */
bool aside_add(struct aside *aside, struct kv_slice message, struct session *session,
               unsigned queue);

/* Moves the first message from one of `queues` (bits) to `buffer`, which has room for any message.
 * Returns its size, and sets *session to its session, with the message's reference, and *queue to
 * its queue; 0: none waits. */
size_t aside_take(struct aside *aside, uint32_t queues, uint8_t *buffer, struct session **session,
                  unsigned *queue);

static inline unsigned aside_waiting(const struct aside *aside)
{
    return atomic_load_explicit(&aside->waiting, memory_order_relaxed);
}

#endif
