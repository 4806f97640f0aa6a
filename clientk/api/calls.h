/*
 * calls: what every call of a handle goes through.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_API_CALLS_H
#define MQKV_CLIENTK_API_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/api/handle.h"
#include "clientk/message/task.h"
#include "common/time/clock.h"
#include "mqkv/clientk.h"

/* Checks that `client` is a handle of this process. KV_OK; KV_USAGE: it is NULL, or a handle of the
 * parent process, as the thread's last error says. */
enum kv_status client_check(const struct clientk *client);

/* Returns when a call that begins now must be over, in milliseconds of CLOCK_MONOTONIC. */
static inline uint64_t client_deadline_ms(const struct clientk *client)
{
    return clock_monotonic_coarse_ms() + client->settings.timeout_ms;
}

/* Executes the operation of *task, of which nothing else is filled in, and fills *result. Returns
 * the status of *result, or KV_USAGE as client_check does. The thread's last error says why. */
enum kv_status client_execute_one(struct clientk *client, struct task *task,
                                  struct clientk_result *result);

/* Executes a SCAN or a RANGE, as client_execute_one does, with room for as many entries as its last
 * pages had. */
enum kv_status client_execute_page(struct clientk *client, struct task *task,
                                   struct clientk_result *result);

/* Returns true if KV_UNSUPPORTED, as the answer to what this library sends right, means that the
 * server does not know the operation. One whose data are in a cluster may have another reason,
 * which its sentence says. */
bool client_server_is_too_old(struct clientk *client);

#endif
