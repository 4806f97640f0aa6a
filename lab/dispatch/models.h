/*
 * models: the dispatch models that --dispatch chooses from (serverk/config/dispatch_model.h):
 *
 *   pool     M workers receive and execute: that of the daemon
 *   event    one does: it reads all queues without blocking, and sleeps in epoll when they are
 *            empty
 *   thread   one receives, and starts a thread for each message (request_threads.h)
 *   process  one receives; it executes what writes, and forks a process for what only reads
 *            (request_processes.h)
 *
 * Sessions, statistics, durability and the wait rule are the same in all of them.
 */
#ifndef MQKV_LAB_DISPATCH_MODELS_H
#define MQKV_LAB_DISPATCH_MODELS_H

#include "serverk/config/dispatch_model.h"

/* The model of that number, from 0, which is the pool's; NULL: there are fewer. */
const struct dispatch_model *dispatch_models_get(int number);

#endif
