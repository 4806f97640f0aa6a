/*
 * calls: what every call of a handle goes through.
 */
#ifndef MQKV_CLIENTK_API_CALLS_H
#define MQKV_CLIENTK_API_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "clientk/api/handle.h"
#include "clientk/message/task.h"
#include "common/time/clock.h"
#include "mqkv/clientk.h"

/* KV_OK; KV_USAGE and the sentence why, if client is NULL or the handle of a parent process. */
enum kv_status client_check(const struct clientk *client);

/* When a call that begins now must be over, in milliseconds of CLOCK_MONOTONIC. */
static inline uint64_t client_deadline_ms(const struct clientk *client)
{
    return clock_monotonic_coarse_ms() + client->settings.timeout_ms;
}

/* Executes the operation of the task, of which nothing else is filled in: its result's status. */
enum kv_status client_execute_one(struct clientk *client, struct task *task,
                                  struct clientk_result *result);

#endif
