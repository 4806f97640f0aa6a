/*
 * batch_command: files of commands, executed by several threads: all share the lines of one file, or each
 * has a file of its own. Answers come in the order of the lines, whoever executed them.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_BATCH_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_BATCH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

struct batch_options {
    uint64_t threads; /* 0: one, or one a file */
    bool bail;
    bool quiet;
};
extern const struct option_row batch_option_rows[];
extern const struct batch_options batch_option_defaults;

/* The `batch` command: operands are the files, "-" standard input. The exit code is the highest of
 * all lines'. */
int batch_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

/* Standard input as a batch without a summary: clientk without a command, away from a terminal. */
int batch_run_stdin(struct cli_context *context);

#endif
