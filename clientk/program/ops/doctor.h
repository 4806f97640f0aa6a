/*
 * doctor: is everything there that clients need? Kernel limits, what they allow and what is
 * used, the server and its queues, permissions, its data files and their disk, shared memory; with the lines
 * that change what is wrong.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_DOCTOR_H
#define MQKV_CLIENTK_PROGRAM_OPS_DOCTOR_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

/* Exit code 0: all well; 1: something is to be mended, marked BAD; 3: no server, or it does not answer. */
int doctor_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);

#endif
