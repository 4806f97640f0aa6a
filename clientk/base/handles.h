/*
 * handles: what all handles of the process share: the lock of what belongs to which handle, and the
 * number of forks.
 */
#ifndef MQKV_CLIENTK_BASE_HANDLES_H
#define MQKV_CLIENTK_BASE_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_uint handles_forks __attribute__((visibility("hidden")));

/* Prepares for forks; harmless when repeated. Before the first handle is opened. False: no memory;
 * the next call tries again. */
bool handles_setup(void);

/* Guards the threads, combiners and pipelines of all handles. Taken when a thread or a pipeline
 * comes or goes, never by a call that finds its combiner. Held while a combiner is closed, and over
 * a fork. */
void handles_lock(void);
void handles_unlock(void);

/* Counts forks: in a child it is another number than in the parent. */
static inline unsigned handles_fork_generation(void)
{
    return atomic_load_explicit(&handles_forks, memory_order_relaxed);
}

#endif
