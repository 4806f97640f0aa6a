/*
 * script_function: FUNCTION LOAD and FCALL: libraries run once in each VM that needs them, and
 * leave their functions there.
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_FUNCTION_H
#define MQKV_KRESP_SCRIPT_SCRIPT_FUNCTION_H

#include <stdbool.h>

#include "bridges/kresp/script/script_arguments.h"
#include "bridges/kresp/session/redis_job.h"

/* Loads the library of this text, and replies its name, or the job fails. */
void script_function_load(struct redis_job *job, struct kv_slice text, bool replace);

/* Calls the function, as script_run runs a script. The job fails if there is none. */
void script_function_call(struct redis_job *job, struct kv_slice name,
                          const struct script_arguments *arguments);

/* Replies to FUNCTION LIST: the libraries whose names match the pattern (NULL: all). */
void script_function_list(struct redis_job *job, const struct kv_slice *pattern, bool with_code);

/* Replies to FUNCTION STATS. */
void script_function_stats(struct redis_job *job);

/* Deletes the library; false: there is none of this name. */
bool script_function_delete(struct redis_job *job, struct kv_slice name);

/* Deletes all libraries. */
void script_function_flush(struct redis_job *job);

#endif
