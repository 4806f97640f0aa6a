/*
 * keys_command: the commands that look for big keys, by a sample of the store, and for hot ones, by
 * what the server is asked for during some seconds.
 */
#ifndef MQKV_TOOLS_OPS_KEYS_COMMAND_H
#define MQKV_TOOLS_OPS_KEYS_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct bigkeys_options {
    uint64_t limit;  /* rows */
    uint64_t sample; /* keys to look at; 0: all */
};
extern const struct option_row bigkeys_option_rows[];
extern const struct bigkeys_options bigkeys_option_defaults;

struct hotkeys_options {
    uint64_t limit;
    uint64_t time_ms;
};
extern const struct option_row hotkeys_option_rows[];
extern const struct hotkeys_options hotkeys_option_defaults;

int bigkeys_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count);
int hotkeys_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count);

#endif
