/*
 * pool: threads that do jobs, which wait in a queue. The threads start with the first job, so that
 * a pool that nobody uses costs nothing.
 *
 * You may change the members of the struct, and nothing else in this file.
 */
#ifndef LAB_POOL_H
#define LAB_POOL_H

#include "queue.h"

#define POOL_MOST 8

struct pool {
    struct queue queue;
    unsigned threads;
};

/* Makes a pool of 1 .. POOL_MOST threads, for which 1 .. QUEUE_MOST jobs may wait. */
void pool_init(struct pool *pool, unsigned threads, unsigned waiting);

/* Has run(argument) called once, by one of the threads; waits while too many jobs wait. Any threads
 * may call it at once, jobs among them as long as there is room for more. False: the pool is
 * closed, and the job will not be done. */
bool pool_submit(struct pool *pool, void (*run)(void *argument), void *argument);

/* Closes the pool: every job that it has accepted is done before this returns, and its threads have
 * ended. To be called once. */
void pool_close(struct pool *pool);

#endif
