/*
 * watch_command: the command that prints changes as they are made.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_WATCH_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_WATCH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct watch_options {
    const char *since; /* NULL: begin with the next change */
    uint64_t limit;    /* 0: no limit */
    bool keys_only;
    bool positions;    /* print positions with the changes */
    bool transactions; /* and to which transaction they belong */
};
extern const struct option_row watch_option_rows[];
extern const struct watch_options watch_option_defaults;

int watch_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

#endif
