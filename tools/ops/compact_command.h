/*
 * compact_command: `compact`: has the server compact its data files now, and waits until it has.
 */
#ifndef MQKV_TOOLS_OPS_COMPACT_COMMAND_H
#define MQKV_TOOLS_OPS_COMPACT_COMMAND_H

#include <stddef.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct compact_options {
    bool no_wait;
};
extern const struct option_row compact_option_rows[];
extern const struct compact_options compact_option_defaults;

int compact_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count);

#endif
