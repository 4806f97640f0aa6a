/*
 * sessions_command: the commands that list who is connected to the server, and that end a session.
 */
#ifndef MQKV_TOOLS_OPS_SESSIONS_COMMAND_H
#define MQKV_TOOLS_OPS_SESSIONS_COMMAND_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

int sessions_run(struct cli_context *context, const void *options, const struct word *operands,
                 size_t count);
int kill_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
