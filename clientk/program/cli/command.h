/*
 * command: the table of all commands. The shell, the prompt and batches look commands up in it;
 * help and completion are made from it.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

/* Where a command may be given. */
enum {
    COMMAND_SHELL = 1 << 0,  /* clientk NAME ... */
    COMMAND_BATCH = 1 << 1,  /* a line of a batch */
    COMMAND_PROMPT = 1 << 2, /* a line at the prompt */
    COMMAND_LINE = COMMAND_BATCH | COMMAND_PROMPT,
    COMMAND_ANYWHERE = COMMAND_SHELL | COMMAND_LINE
};

/* Sets of formats. */
enum {
    FORMATS_OF_TEXT = 1 << OUTPUT_TEXT | 1 << OUTPUT_RAW,
    FORMATS_BUT_CSV = FORMATS_OF_TEXT | 1 << OUTPUT_JSON
};

#define COMMAND_ANY_NUMBER ((size_t)-1)

/* What completion offers for the first operand of a command. */
enum operand_kind {
    OPERAND_OTHER,
    OPERAND_KEY,
    OPERAND_SECTION,  /* a section of the server's statistics */
    OPERAND_SETTINGS, /* get, set or reload, then the name of a setting */
    OPERAND_QUEUE     /* a word of queue, then the name of a queue; list: a state of jobs */
};

struct key_command_kind;

/* Takes words that are neither options nor operands out of those behind the command's name, for a
 * command whose words have a grammar of their own. *count: how many are left. place: where the
 * command was given. KV_OK, or a status with a sentence. */
typedef enum kv_status (*command_words)(void *options, struct word *words, size_t *count,
                                        unsigned place, struct kv_error *error);

/* Runs a command that is not for one key. options: the struct that its option table filled in.
 * Prints its answers; returns the exit code. */
typedef int (*command_run)(struct cli_context *context, const void *options,
                           const struct word *operands, size_t count);

struct command {
    const char *name;
    const char *alias;     /* or NULL */
    const char *arguments; /* as help shows them */
    const char *summary;   /* one line */
    const char *details;   /* more lines for `help NAME`; or NULL */
    unsigned places;
    unsigned formats; /* a bit, 1 << enum output_format, for each that it has; 0: it has all */
    size_t min_operands, max_operands;
    enum operand_kind operand;
    const struct option_row *options; /* its options; or NULL */
    const void *option_defaults;      /* defaults: the struct of the options before any was given */
    size_t option_bytes;
    const struct key_command_kind *key_kind; /* a command for one key; else run */
    command_run run; /* a command for one key takes this way if an option says that it is for
                        several; or NULL */
    command_words take_words; /* or NULL */
};

/* Defined in command_table.c, which alone knows all commands. */
extern const struct command commands[];
extern const size_t command_count;

/* Returns the command of that name or alias that may be given in `place`. NULL: there is none;
 * *error says so and suggests the most similar one. */
const struct command *command_find(const struct word *name, unsigned place, struct kv_error *error);

#endif
