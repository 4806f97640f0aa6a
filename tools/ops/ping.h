/*
 * ping: the commands ping, which times empty round trips, and sync, which waits until all earlier
 * writes are on disk.
 */
#ifndef MQKV_TOOLS_OPS_PING_H
#define MQKV_TOOLS_OPS_PING_H

#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct ping_options {
    uint64_t count;
    uint64_t interval_ms;
};
extern const struct option_row ping_option_rows[];
extern const struct ping_options ping_option_defaults;

int ping_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);
int sync_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
