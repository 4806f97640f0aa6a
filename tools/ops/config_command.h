/*
 * config_command: the command that shows and changes the settings of a running server.
 */
#ifndef MQKV_TOOLS_OPS_CONFIG_COMMAND_H
#define MQKV_TOOLS_OPS_CONFIG_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

struct config_options {
    uint32_t pid; /* process of the server; 0: the server of the queue */
};
extern const struct option_row config_option_rows[];
extern const struct config_options config_option_defaults;

int config_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);

#endif
