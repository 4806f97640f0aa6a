/*
 * invocation: one command with its options and operands, from its words to its answer.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_INVOCATION_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_INVOCATION_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/command.h"
#include "clientk/program/cli/cli_context.h"
#include "clientk/program/commands/key_command.h"

/* A command whose words are valid. */
struct invocation {
    const struct command *command; /* NULL: an empty line */
    void *options;                 /* for a command that is not for one key */
    const struct word *operands;
    size_t operand_count;
    bool for_key; /* a command for one key, which is in key_command: */
    struct key_command key_command;
    bool for_keys; /* such a command for each of the operands, with an answer for each */
};

/* Looks up words[0], takes its options, checks its operands and builds its operation. settings:
 * where global options go that stand behind the command (from the shell; else NULL). KV_OK, or the
 * status with a sentence. The caller calls invocation_free in any case and keeps the words until
 * then. */
enum kv_status invocation_prepare(struct invocation *prepared, struct word *words, size_t count,
                                  unsigned place, struct global_options *settings,
                                  struct kv_error *error);

void invocation_free(struct invocation *prepared);

/* Runs the command, prints its answer and returns the exit code. */
int invocation_execute(struct cli_context *context, struct invocation *prepared);

/* Prepares and executes one line; an empty line does nothing. */
int invocation_run_words(struct cli_context *context, struct word *words, size_t count,
                         unsigned place);

#endif
