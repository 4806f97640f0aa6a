/*
 * client: what every call of a handle goes through.
 */
#ifndef MQKV_CLIENTK_API_CLIENT_H
#define MQKV_CLIENTK_API_CLIENT_H

#include <stddef.h>

#include "clientk/message/task.h"
#include "mqkv/clientk.h"

/* KV_OK; KV_USAGE and the sentence why, if client is NULL or the handle of a parent process. */
enum kv_status client_check(const struct clientk *client);

/* Executes the operations in order through the combiner of the calling thread. Returns KV_OK, or what stopped
 * it. */
enum kv_status client_execute(struct clientk *client, const struct clientk_operation *operations,
                              size_t count, struct clientk_result *results);

/* Executes the operation of the task, of which nothing else is filled in: its result's status. */
enum kv_status client_execute_one(struct clientk *client, struct task *task,
                                  struct clientk_result *result);

#endif
