/*
 * migrate_command: `migrate --to NAME`: brings all entries of a store to another one while clients
 * use the first, follows what they change, and compares both at the end.
 */
#ifndef MQKV_TOOLS_TRANSFER_MIGRATE_COMMAND_H
#define MQKV_TOOLS_TRANSFER_MIGRATE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct migrate_options {
    const char *to;
    bool force;       /* the target may have entries, which stay unless the source has their keys */
    bool resume;      /* the entries of the target come from an earlier migration */
    bool until_quiet; /* go on until nobody writes to the source any more */
};
extern const struct option_row migrate_option_rows[];
extern const struct migrate_options migrate_option_defaults;
int migrate_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count);

#endif
