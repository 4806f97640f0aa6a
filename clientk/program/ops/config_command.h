/*
 * config_command: the command that shows and changes the settings of a running server.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_CONFIG_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_OPS_CONFIG_COMMAND_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

int config_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);

#endif
