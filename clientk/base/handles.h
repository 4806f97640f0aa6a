/*
 * handles: what all handles of the process share: the lock of what belongs to which handle, and the
 * number of forks.
 */
#ifndef MQKV_CLIENTK_BASE_HANDLES_H
#define MQKV_CLIENTK_BASE_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_uint handles_forks __attribute__((visibility("hidden")));

/* Prepares for forks, before the first handle is opened; harmless when repeated. False: no memory;
 * the next call tries again. */
bool handles_setup(void);

/* Take and release the lock that guards the threads, combiners and pipelines of all handles. It is
 * taken when a thread or a pipeline comes or goes, but not by a call that finds its combiner, and
 * is held while a combiner is closed, and over a fork. */
void handles_lock(void);
void handles_unlock(void);

/* Returns true if some thread holds the lock; for assertions of functions that need it. */
bool handles_are_locked(void);

/* Returns the number of forks that led to this process: in a child it is another one than in the
 * parent. */
static inline unsigned handles_fork_generation(void)
{
    return atomic_load_explicit(&handles_forks, memory_order_relaxed);
}

#endif
