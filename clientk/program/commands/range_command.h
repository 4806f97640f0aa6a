/*
 * range_command: the commands about keys in their order: those of a range (scan with --from, --to,
 * --prefix or --reverse), how many they are, the first, the last, the next and the previous one.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_RANGE_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_RANGE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

/* The bounds that the options of a command give; NULL: not given. */
struct range_bounds {
    const char *from, *to, *prefix;
    bool reverse;
};

/* Returns true if an option asks for keys in their order. */
bool range_bounds_are_given(const struct range_bounds *bounds);

/* Turns the bounds, and the operand, if there is one, which is a prefix, into *range. KV_USAGE: two
 * prefixes, with a sentence. */
enum kv_status range_bounds_take(const struct range_bounds *bounds, const struct word *operands,
                                 size_t count, struct clientk_range *range, struct kv_error *error);

/* Visits the entries of the range. *left_out: how many reports there were of records that were left
 * out, as for whole_scan_run; `command` names the reports. */
enum kv_status range_visit_all(struct cli_context *context, const char *command,
                               const struct clientk_range *range, clientk_visit visit,
                               void *visit_context, uint64_t *left_out);

/* No key begins so: if that looks like a pattern, tells a person that it is none. */
void range_hint_pattern(const struct cli_context *context, const char *command,
                        struct kv_slice prefix);

struct count_options {
    struct range_bounds bounds;
};
extern const struct option_row count_option_rows[];
extern const struct count_options count_option_defaults;

int count_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

struct one_key_options {
    struct range_bounds bounds;
    bool keys_only;
};
extern const struct option_row one_key_option_rows[];
extern const struct one_key_options one_key_option_defaults;

/* Each prints one entry. */
int first_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);
int last_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);
int next_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);
int previous_run(struct cli_context *context, const void *options, const struct word *operands,
                 size_t count);

#endif
