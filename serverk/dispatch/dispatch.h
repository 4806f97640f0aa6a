/*
 * dispatch: how messages come to threads: the dispatch models (--dispatch) behind one call. Each is
 * a pool (pool.h), which is stopped, drained and freed as such; they differ in how many workers it
 * has and in what these do with messages:
 *
 *   pool     M workers receive and execute
 *   event    one does: it reads all queues without blocking, and sleeps in epoll when they are
 *            empty
 *   thread   one receives, and starts a thread for each message (request_threads.h)
 *   process  one receives; it executes what writes, and forks a process for what only reads
 *            (request_processes.h)
 *
 * Sessions, statistics, durability and the wait rule are the same in all of them.
 */
#ifndef MQKV_SERVERK_DISPATCH_DISPATCH_H
#define MQKV_SERVERK_DISPATCH_DISPATCH_H

#include "mqkv/error.h"
#include "serverk/dispatch/pool.h"
#include "serverk/dispatch/service.h"

/* Starts the threads of service->options->dispatch, all signals blocked. service->statistics has
 * dispatch_model_writers blocks. KV_NO_MEMORY, KV_LIMIT, KV_IO, with a sentence. */
enum kv_status dispatch_start(const struct service *service, struct pool **pool,
                              struct kv_error *error);

#endif
