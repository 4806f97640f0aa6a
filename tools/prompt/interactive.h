/*
 * interactive: the prompt: line editing, history and completion by libedit.
 */
#ifndef MQKV_TOOLS_PROMPT_INTERACTIVE_H
#define MQKV_TOOLS_PROMPT_INTERACTIVE_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

/* Reads and executes commands until the end of input or `quit`. Returns the exit code: 0, or 4 if
 * the terminal cannot be used. */
int interactive_run(struct cli_context *context);

/* The commands that only the prompt has. */
int timing_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);
int format_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);
int quit_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
