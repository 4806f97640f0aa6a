/*
 * transaction_commands: what EXEC asks of the command that writes the watched key: that it write
 * only if the key is as it was. Such a command's job is `conditional`.
 */
#ifndef MQKV_KRESP_COMMANDS_TRANSACTION_COMMANDS_H
#define MQKV_KRESP_COMMANDS_TRANSACTION_COMMANDS_H

#include <stdbool.h>

#include "kresp/session/redis_job.h"

/* In plan: makes the operation, a put, exchange or delete, depend on the watched version. */
void redis_transaction_condition(struct redis_job *job, struct clientk_operation *operation);

/* In answer: true: the key was as it was watched, the command goes on with its answer. False: it
 * was not: the transaction has ended, and its null has been replied. */
bool redis_transaction_held(struct redis_job *job);

#endif
