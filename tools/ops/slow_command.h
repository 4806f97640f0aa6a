/*
 * slow_command: the command that lists the server's latest slow requests.
 */
#ifndef MQKV_TOOLS_OPS_SLOW_COMMAND_H
#define MQKV_TOOLS_OPS_SLOW_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct slow_options {
    bool clear;
};
extern const struct option_row slow_option_rows[];
extern const struct slow_options slow_option_defaults;

int slow_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
