/*
 * scan_command: the command that lists entries.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_SCAN_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_SCAN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"
#include "clientk/program/commands/range_command.h"

struct scan_options {
    uint64_t limit; /* 0: all */
    bool keys_only;
    bool count_only;
    bool atomic;       /* each data file is seen at one moment; a range all of it */
    const char *match; /* only keys that match this pattern (glob.h); NULL: all */
    struct range_bounds bounds;
};
extern const struct option_row scan_option_rows[];
extern const struct scan_options scan_option_defaults;

int scan_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
