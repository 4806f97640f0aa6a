/*
 * pool: --dispatch pool: M worker threads, fed as --lanes says; the kernel is the run queue.
 *
 *   shared  one queue; all workers block in its receive (a single one polls it by rule Z)
 *   worker  queue q is served by the workers w with w mod queues = q, or, if there are fewer workers
 *           than queues, by worker q mod workers; who is alone on his queues polls them by rule Z,
 *           who is not blocks
 *   auto    every worker on duty polls all queues; the crew (crew.h) says how many are
 */
#ifndef MQKV_SERVERK_POOL_H
#define MQKV_SERVERK_POOL_H

#include <stdbool.h>

#include "common/error.h"
#include "serverk/service.h"

struct pool;

/* Starts service->options->workers threads, all signals blocked. service->statistics has as many
 * blocks. */
enum kv_status pool_start(const struct service *service, struct pool **pool,
                          struct kv_error *error);

/* Each worker finishes its message and ends; returns when all have. */
void pool_stop(struct pool *pool);

/* After pool_stop: deals, in this thread, with the messages that wait in the queues now (not with
 * those that come meanwhile: that might never end). */
void pool_drain(struct pool *pool);

/* True if a queue failed; the process then has sent itself a SIGTERM. */
bool pool_failed(const struct pool *pool);

/* After pool_stop. NULL is harmless. */
void pool_free(struct pool *pool);

#endif
