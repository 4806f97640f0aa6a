/*
 * arguments: the options and operands among the words of a command. A quoted word is an operand,
 * whatever it looks like; "--" ends the options.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_ARGUMENTS_H
#define MQKV_CLIENTK_PROGRAM_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/line.h"
#include "common/options/option_table.h"
#include "mqkv/error.h"

/* Takes the options out of the words: values go to their targets, the operands move up. If
 * `leading`, it stops at the first operand. KV_OK or KV_USAGE. */
enum kv_status arguments_take_options(const struct option_set *sets, struct word *words,
                                      size_t *count, bool leading, struct kv_error *error);

/* Reads the word as a number into *value; else KV_USAGE and a sentence that calls the number
 * `what`. with_unit: a time needs its unit, else a bare number is in milliseconds. */
enum kv_status arguments_integer(const struct word *word, const char *what, int64_t *value,
                                 struct kv_error *error);
enum kv_status arguments_duration_ms(const struct word *word, const char *what, bool with_unit,
                                     uint64_t *value, struct kv_error *error);

/* What was probably meant by a text that is not a time to live, as the end of a sentence. */
const char *arguments_duration_advice(const char *text);

#endif
