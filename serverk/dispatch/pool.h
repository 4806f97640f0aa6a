/*
 * pool: M worker threads, fed as --lanes says; the kernel is the run queue. Each handles the
 * messages that it receives, or hands them to the feed of the dispatch model (dispatch_model.h).
 *
 *   shared  one queue; all workers block in its receive (a single one polls it by the wait rule)
 *   worker  queue q is served by the workers w with w mod queues = q, or, if there are fewer
 *           workers than queues, by worker q mod workers; a worker that is alone on its queues
 *           polls them by that rule, any other blocks
 *   auto    every active worker polls all queues; parking.h says how many are active
 */
#ifndef MQKV_SERVERK_DISPATCH_POOL_H
#define MQKV_SERVERK_DISPATCH_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "serverk/dispatch/service.h"
#include "serverk/dispatch/worker.h"

struct json;
struct pool;

/* What the workers of a pool do with messages if they do not handle them themselves. */
struct pool_feed {
    void *context;
    message_handler handle; /* NULL: worker_handle */
    /* Called by a worker before it ends. NULL: nothing. */
    void (*finish)(void *context);
    /* Adds members to section "server" of the statistics. Threads: any. NULL: nothing. */
    void (*put_stats)(void *context, struct json *json);
    /* Frees the context, after pool_stop. NULL: nothing. */
    void (*free)(void *context);
};

/* Starts as many threads as the dispatch model has receivers, all signals blocked; theirs are the
 * first blocks of service->statistics. What service->feed has is the pool's from here on, also on
 * failure. */
enum kv_status pool_start(const struct service *service, struct pool **pool,
                          struct kv_error *error);

/* Lets each worker finish its message and end; returns when all have. */
void pool_stop(struct pool *pool);

/* Deals, in this thread, with the messages that wait in the queues now (not with those that come
 * meanwhile: that might never end). To be called after pool_stop. */
void pool_drain(struct pool *pool);

/* Returns whether a queue failed; the process then has sent itself a SIGTERM. */
bool pool_failed(const struct pool *pool);

/* To be called after pool_stop. NULL is harmless. */
void pool_free(struct pool *pool);

#endif
