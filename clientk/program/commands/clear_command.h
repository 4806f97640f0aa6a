/*
 * clear_command: `clear [PREFIX]` and `del --prefix PREFIX`, which delete many entries. Asks at a
 * terminal first; elsewhere --yes must be given.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_CLEAR_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_CLEAR_COMMAND_H

#include <stddef.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct clear_options {
    bool yes;
};
extern const struct option_row clear_option_rows[];
extern const struct clear_options clear_option_defaults;

/* Deletes the entries whose key begins with the operand, or all. */
int clear_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

/* options: a struct key_command_options whose prefix is set. */
int delete_prefix_run(struct cli_context *context, const void *options, const struct word *operands,
                      size_t count);

#endif
