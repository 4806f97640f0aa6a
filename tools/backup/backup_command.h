/*
 * backup_command: clientk backup: a copy of a running store as it is at one moment, in a directory
 * (backup_target.h) or a stream (tar_stream.h).
 */
#ifndef MQKV_TOOLS_BACKUP_BACKUP_COMMAND_H
#define MQKV_TOOLS_BACKUP_BACKUP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct backup_options {
    bool by_message; /* read the files through the server even where they can be opened */
};
extern const struct option_row backup_option_rows[];
extern const struct backup_options backup_option_defaults;
int backup_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);

#endif
