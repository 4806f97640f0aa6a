/*
 * transact_command: the command that changes several keys together, or none, and `get --together`.
 *
 *   transact [GUARD...] [--sync LEVEL] [-- STEP]... [--else STEP [-- STEP]...]
 *
 * A step is a command for one key. The guards and the steps are taken out of the words before
 * options are looked for, since options of steps belong to these, and a guard has up to two words.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_TRANSACT_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_TRANSACT_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"
#include "mqkv/clientk.h"

struct guard_words {
    enum clientk_guard_kind kind;
    struct word key;
    struct word wanted; /* a version, or a value */
};

struct transact_options {
    int sync;
    const char *guard; /* what the option table took as one: given in a way that it cannot be */
    size_t guard_count;
    struct guard_words guards[CLIENTK_MAX_TRANSACTION_STEPS];
    struct word *steps; /* from the first "--" or "--else" on */
    size_t step_words;
    unsigned place; /* where the command was given */
};
extern const struct option_row transact_option_rows[];
extern const struct transact_options transact_option_defaults;

/* Takes guards and steps out of the words behind the command's name, *count of which are left. */
enum kv_status transact_take_words(void *options, struct word *words, size_t *count, unsigned place,
                                   struct kv_error *error);

int transact_run(struct cli_context *context, const void *options, const struct word *operands,
                 size_t count);

/* The run of `get` with several keys. */
int get_together_run(struct cli_context *context, const void *options, const struct word *operands,
                     size_t count);

#endif
