/*
 * batch_command: executes files of commands by several threads, which share the lines of one file
 * or have a file each. Answers are printed in the order of the lines.
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
    uint64_t threads; /* 0: one, or one per file */
    bool bail;
    bool quiet;
};
extern const struct option_row batch_option_rows[];
extern const struct batch_options batch_option_defaults;

/* The `batch` command: operands are the files, "-" standard input. Returns the highest exit
 * code of all lines. */
int batch_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

/* Standard input as a batch without a summary, for clientk without a command and without a
 * terminal. */
int batch_run_stdin(struct cli_context *context);

#endif
