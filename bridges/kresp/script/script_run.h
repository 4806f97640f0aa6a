/*
 * script_run: runs a script, EVAL's or EVALSHA's: what it reads and writes is part of the
 * transaction that executes its command (transaction_run).
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_RUN_H
#define MQKV_KRESP_SCRIPT_SCRIPT_RUN_H

#include <stdbool.h>

#include "bridges/kresp/protocol/sha1.h"
#include "bridges/kresp/script/script_arguments.h"
#include "bridges/kresp/session/redis_job.h"

/* Runs the script with this SHA-1, and replies. text: its text, or no bytes, for one that was
 * loaded; then false: there is no such script, and nothing was replied. */
bool script_run(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text,
                const struct script_arguments *arguments);

/* Compiles the text and keeps it for script_run. False: the job has failed. */
bool script_load_text(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text);

/* Returns true if such a script was loaded. */
bool script_is_loaded(const char hex[SHA1_HEX_BYTES]);

/* Forgets all scripts. */
void script_flush_texts(void);

#endif
