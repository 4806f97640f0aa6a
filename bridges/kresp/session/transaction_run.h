/*
 * transaction_run: executes commands as one transaction of the store: others see all of what they
 * do or nothing, and so does the store after a crash.
 *
 * The commands run on a view of their keys (transaction_view), each after those before it; then one
 * message asks the store to do what they came to if every key that they read, and every key that
 * was watched, is as it was. If one is not, they run again on what is there now.
 */
#ifndef MQKV_KRESP_SESSION_TRANSACTION_RUN_H
#define MQKV_KRESP_SESSION_TRANSACTION_RUN_H

#include <stdbool.h>

#include "bridges/kresp/session/redis_job.h"

/* Executes what the session has queued, and replies to EXEC: with an array of the replies, null if
 * a watched key was changed, or an error: then nothing was executed, unless it says that this is
 * unknown. */
void redis_transaction_run_queue(struct redis_job *exec);

/* Executes the job's own command, which has not been planned, and replies. False: it is not for a
 * transaction (too many keys, or too much for one message; or the store has none), nothing was
 * executed or replied, and it has to be done in pieces. */
bool redis_transaction_run_alone(struct redis_job *job);

#endif
