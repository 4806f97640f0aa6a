/*
 * direct_telling: tells the server how many keys were read without it. The counts go to the memory
 * of a ring for replies (wire/reply_ring.h), which the server reads when it is asked for statistics
 * and when the session ends. A handle that has no session with a ring tells nothing.
 *
 * A thread counts for itself (direct_readers.h). Now and then, at most once a tick of the coarse
 * clock, one of them adds to the ring what all threads have read since the last time; the rest is
 * added when the handle is closed. So a read costs no atomic operation, and what a killed process
 * had read within the last milliseconds is missing.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_TELLING_H
#define MQKV_CLIENTK_DIRECT_DIRECT_TELLING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "clientk/direct/direct_readers.h"
#include "wire/reply_ring.h"

/* One session of a handle. Starts from {0}. */
struct direct_listener {
    struct wire_ring_reads *counts; /* NULL: it has no ring, and is not on the list */
    struct direct_listener *next, **link;
};

/* All sessions of a handle. */
struct direct_telling {
    _Atomic uint64_t told_ms; /* at which tick of the clock it was told last */

    pthread_mutex_t lock; /* guards the rest; may be taken with handles_lock held, not before it */
    struct direct_listener *first;
    uint64_t found, absent; /* told so far */
};

void direct_telling_init(struct direct_telling *telling);

/* Takes all sessions off the list. No thread may be in a call: takes no lock, which a thread of the
 * parent of a forked process may have had. */
void direct_telling_free(struct direct_telling *telling);

/* A session has begun; ring_object: the descriptor of its ring, which stays the caller's; below 0:
 * it has none. The listener may still be that of the session before. */
void direct_telling_join(struct direct_telling *telling, struct direct_listener *listener,
                         int ring_object);

/* The session is about to end, or has ended. */
void direct_telling_leave(struct direct_telling *telling, struct direct_listener *listener);

/* Tells the server all that the readers have read, unless another thread is about to. Takes
 * handles_lock. */
void direct_telling_tell(struct direct_telling *telling, struct direct_readers *readers);

/* Tells the same, if that was not told at this tick of the clock yet. */
static inline void direct_telling_look(struct direct_telling *telling,
                                       struct direct_readers *readers, uint64_t now_ms)
{
    if (atomic_load_explicit(&telling->told_ms, memory_order_relaxed) == now_ms)
        return;
    atomic_store_explicit(&telling->told_ms, now_ms, memory_order_relaxed);
    direct_telling_tell(telling, readers);
}

#endif
