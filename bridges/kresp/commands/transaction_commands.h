/*
 * transaction_commands: what EXEC asks of the command that writes the watched key: to write only if
 * the key is as it was. The job of such a command is `conditional`.
 */
#ifndef MQKV_KRESP_COMMANDS_TRANSACTION_COMMANDS_H
#define MQKV_KRESP_COMMANDS_TRANSACTION_COMMANDS_H

#include <stdbool.h>

#include "bridges/kresp/session/redis_job.h"

/* Called by plan: makes the operation, a put, exchange or delete, depend on the watched version. */
void redis_transaction_condition(struct redis_job *job, struct clientk_operation *operation);

/* Called by the answer of a command that reads its key (operation 0) before it writes. True: the
 * key is as it was watched, and the command continues, with a write by redis_transaction_condition.
 * False: as redis_transaction_unchanged. */
bool redis_transaction_read_unchanged(struct redis_job *job);

/* Called by answer if such a command has found that it writes nothing, or has failed. */
void redis_transaction_writes_nothing(struct redis_job *job);

/* The plan of a command that makes a new value of the old one (plan_change), in two batches: reads
 * (phase 0), then puts what is in the steps' bytes (phase 1). */
void redis_transaction_plan_change(struct redis_job *job);

enum redis_change {
    CHANGE_GOES_ON, /* the command continues in the next batch */
    CHANGE_DONE,    /* the new value has been put: the caller replies */
    CHANGE_ENDED    /* an error, or the null of EXEC, has been replied, or the job has failed */
};

/* The answer of such a command. `compute` makes the new value of the job's result 0, a value or
 * none, in the steps' bytes, or lets the job fail. */
enum redis_change redis_transaction_answer_change(struct redis_job *job,
                                                  void (*compute)(struct redis_job *job));

/* Called by answer. True: the key was as it was watched, the command continues with its answer.
 * False: it was not, so the transaction has ended, and its null has been replied. */
bool redis_transaction_unchanged(struct redis_job *job);

#endif
