/*
 * doctor: checks all that clients need: kernel limits and their use, the server and its queues,
 * permissions, its data files and their disk, shared memory. Prints the commands that raise limits.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_DOCTOR_H
#define MQKV_CLIENTK_PROGRAM_OPS_DOCTOR_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

/* Exit code 0: all well; 1: a problem, marked BAD; 3: no server, or it does not answer. */
int doctor_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);

#endif
