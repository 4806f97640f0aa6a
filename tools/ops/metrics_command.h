/*
 * metrics_command: the command that prints the statistics of the server in the text format of
 * Prometheus, as the server writes it.
 */
#ifndef MQKV_TOOLS_OPS_METRICS_COMMAND_H
#define MQKV_TOOLS_OPS_METRICS_COMMAND_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

/* The section of the statistics that has this text. */
#define METRICS_SECTION "metrics"

/* Reports that `command`, which asked for that section, got `status` instead; returns the exit
 * code. A server that does not know the section is too old. */
int metrics_failure(struct cli_context *context, const char *command, enum kv_status status);

int metrics_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count);

#endif
