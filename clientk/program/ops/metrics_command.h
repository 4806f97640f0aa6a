/*
 * metrics_command: the command that prints the statistics of the server in the text format of
 * Prometheus, as the server writes it.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_METRICS_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_OPS_METRICS_COMMAND_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

int metrics_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count);

#endif
