/*
 * priority: the command that shows or sets the priority of later messages.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_PRIORITY_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_PRIORITY_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"

/* Shows or sets the priority. The threads of a batch share the connection, and so its priority. */
int priority_run(struct cli_context *context, const void *options, const struct word *operands,
                 size_t count);

#endif
