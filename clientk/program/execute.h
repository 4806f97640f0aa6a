/*
 * execute: from the words of a command to its answer.
 */
#ifndef MQKV_CLIENTK_PROGRAM_EXECUTE_H
#define MQKV_CLIENTK_PROGRAM_EXECUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/command.h"
#include "clientk/program/context.h"
#include "clientk/program/key_command.h"

/* A command whose words were understood. */
struct prepared {
    const struct command *command; /* NULL: an empty line */
    void *options;                 /* of a command that runs by itself */
    const struct word *operands;
    size_t operand_count;
    struct key_command key_command; /* of a command about one key */
};

/* Looks up words[0], takes its options, checks its operands, and builds its operation. settings: takes
 * the options of clientk itself too (from the shell; else NULL). KV_OK, or the status with a
 * sentence; prepared_free is due in any case. The words must live as long. */
enum kv_status prepare(struct prepared *prepared, struct word *words, size_t count, unsigned place,
                       struct settings *settings, struct kv_error *error);

void prepared_free(struct prepared *prepared);

/* Runs what was prepared, answers, and returns the exit code. */
int execute_prepared(struct context *context, struct prepared *prepared);

/* Both for one line: the empty one does nothing. */
int execute_words(struct context *context, struct word *words, size_t count, unsigned place);

#endif
