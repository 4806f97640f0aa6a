/*
 * dispatch_model: which dispatch models there are (--dispatch), and what the command line and the
 * server must know of them before they run. What they do: dispatch.h.
 */
#ifndef MQKV_SERVERK_CONFIG_DISPATCH_MODEL_H
#define MQKV_SERVERK_CONFIG_DISPATCH_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum dispatch_model {
    DISPATCH_POOL,    /* M worker threads receive and execute */
    DISPATCH_EVENT,   /* one thread receives and executes */
    DISPATCH_THREAD,  /* one thread receives, and starts a thread for each message */
    DISPATCH_PROCESS, /* one thread receives, and forks a process per request that only reads */
    DISPATCH_MODELS
};

/* "pool" ... */
const char *dispatch_model_name(enum dispatch_model model);

/* What -w means: the workers of a pool; the requests that may be alive at once with THREAD and
 * PROCESS; EVENT takes 1 only. */
uint32_t dispatch_model_default_workers(enum dispatch_model model);

/* Threads that receive messages. */
unsigned dispatch_model_receivers(enum dispatch_model model, uint32_t workers);

/* Threads and processes that write statistics, each a block of its own: first those that
 * receive. */
unsigned dispatch_model_writers(enum dispatch_model model, uint32_t workers);

/* True if requests are alive beside the thread that receives them, and are limited and counted. */
bool dispatch_model_counts(enum dispatch_model model);

#endif
