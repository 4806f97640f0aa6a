/*
 * invocation: from the words of a command to its answer.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_INVOCATION_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_INVOCATION_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/command.h"
#include "clientk/program/cli/cli_context.h"
#include "clientk/program/commands/key_command.h"

/* A command whose words were understood. */
struct invocation {
    const struct command *command; /* NULL: an empty line */
    void *options;                 /* of a command that runs by itself */
    const struct word *operands;
    size_t operand_count;
    struct key_command key_command; /* of a command about one key */
};

/* Looks up words[0], takes its options, checks its operands, and builds its operation. settings: takes
 * the options of clientk itself too (from the shell; else NULL). KV_OK, or the status with a
 * sentence; invocation_free is due in any case. The words must live as long. */
enum kv_status invocation_prepare(struct invocation *prepared, struct word *words, size_t count,
                                  unsigned place, struct global_options *settings,
                                  struct kv_error *error);

void invocation_free(struct invocation *prepared);

/* Runs what was prepared, answers, and returns the exit code. */
int invocation_execute(struct cli_context *context, struct invocation *prepared);

/* Both for one line: the empty one does nothing. */
int invocation_run_words(struct cli_context *context, struct word *words, size_t count,
                         unsigned place);

#endif
