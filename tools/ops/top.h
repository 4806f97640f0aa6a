/*
 * top: the command that shows what the server does: a page that is drawn anew on a terminal, one
 * report after the other in a pipe.
 */
#ifndef MQKV_TOOLS_OPS_TOP_H
#define MQKV_TOOLS_OPS_TOP_H

#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct top_options {
    uint64_t interval_ms;
    uint64_t count; /* 0: until Ctrl-C */
    uint64_t lines;
    int order; /* enum top_order */
};
extern const struct option_row top_option_rows[];
extern const struct top_options top_option_defaults;

int top_run(struct cli_context *context, const void *options, const struct word *operands,
            size_t count);

#endif
