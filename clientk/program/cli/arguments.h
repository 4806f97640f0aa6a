/*
 * arguments: options as tables. One row tells an option's name, its kind, where its value goes and
 * what help says about it, so that parsing, help and completion never disagree.
 *
 * Accepted: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, anywhere among the operands; "--" ends
 * the options. A quoted word, "-" and a negative number are operands.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_ARGUMENTS_H
#define MQKV_CLIENTK_PROGRAM_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clientk/program/cli/line.h"
#include "mqkv/error.h"

enum option_kind {
    OPTION_FLAG,        /* bool */
    OPTION_NUMBER,      /* uint64_t, min..max */
    OPTION_INTEGER,     /* int64_t */
    OPTION_SIZE,        /* uint64_t bytes, min..max */
    OPTION_DURATION_MS, /* uint64_t, min..max */
    OPTION_FRACTION,    /* double, min..max */
    OPTION_TEXT,        /* const char *, borrowed from the words */
    OPTION_CHOICE       /* int: index into choices */
};

/* A table ends with a row without name. */
struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_kind kind;
    const char *argument; /* as help shows it; NULL for FLAG */
    const char *help;
    size_t offset; /* of the field in the target */
    uint64_t min, max;
    const char *const *choices; /* NULL-terminated */
};

/* A table and the struct that its values go to. Where several sets are given, the last has rows
 * NULL, and the first that knows an option takes it. */
struct option_set {
    const struct option_row *rows;
    void *target;
};

/* Takes the options out of the words: values go to their targets, the operands move up. If
 * `leading`, only those before the first operand. KV_OK or KV_USAGE. */
enum kv_status arguments_take_options(const struct option_set *sets, struct word *words,
                                      size_t *count, bool leading, struct kv_error *error);

/* Prints "  -x, --name ARGUMENT   help" for each row; nothing for an empty or NULL table. */
void arguments_print_help(FILE *stream, const struct option_row *rows);

/* The word as a number, or KV_USAGE and a sentence that calls it `what`. */
enum kv_status arguments_integer(const struct word *word, const char *what, int64_t *value,
                                 struct kv_error *error);
enum kv_status arguments_duration_ms(const struct word *word, const char *what, uint64_t *value,
                                     struct kv_error *error);

#endif
