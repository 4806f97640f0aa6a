/*
 * restore_command: clientk restore: brings the entries of a backup (backup_command.h) back, with
 * versions and expiry, into a running store or an empty directory; or those of a cluster into an
 * empty directory.
 */
#ifndef MQKV_TOOLS_BACKUP_RESTORE_COMMAND_H
#define MQKV_TOOLS_BACKUP_RESTORE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct restore_options {
    const char *to; /* NULL: into the running store */
    bool if_absent;
    const char *from; /* NULL: a backup, not a cluster */
    const char *bucket, *config;
};
extern const struct option_row restore_option_rows[];
extern const struct restore_options restore_option_defaults;
int restore_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count);

#endif
