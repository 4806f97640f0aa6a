/*
 * dispatch_model: how messages come to threads: what a pool of workers (pool.h) differs
 * in. The daemon has one model: all workers receive messages and execute them. The lab has others,
 * in which one thread receives.
 */
#ifndef MQKV_SERVERK_CONFIG_DISPATCH_MODEL_H
#define MQKV_SERVERK_CONFIG_DISPATCH_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"

struct pool_feed;
struct service;

struct dispatch_model {
    const char *name;
    uint32_t default_workers; /* of -w, where it is not given; 0: the number of CPUs */
    bool one_receives;        /* one thread receives messages; else all workers do */
    unsigned helpers;         /* threads that write statistics beside receivers and requests */
    bool serves_beside;       /* requests are alive beside the thread that receives them, -w at once
                                 at most; each writes statistics */
    bool forks;               /* processes work on copies of the daemon's memory */
    bool ends_threads; /* a thread serves one message: it need not lower its nice value again */
    /* Makes what the receiving thread does with messages. NULL: it handles them itself. */
    enum kv_status (*make_feed)(const struct service *service, struct pool_feed *feed,
                                struct kv_error *error);
};

extern const struct dispatch_model dispatch_pool;

/* Returns the number of workers where -w is not given. */
uint32_t dispatch_model_default_workers(const struct dispatch_model *model);

/* Returns the number of threads that receive messages. */
unsigned dispatch_model_receivers(const struct dispatch_model *model, uint32_t workers);

/* Returns the number of threads and processes that write statistics, each a block of its own: first
 * those that receive. */
unsigned dispatch_model_writers(const struct dispatch_model *model, uint32_t workers);

#endif
