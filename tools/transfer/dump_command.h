/*
 * dump_command: writes all entries as portable text (dump_format.h), byte for byte and with their
 * expiry. Versions belong to the store and are left out.
 */
#ifndef MQKV_TOOLS_TRANSFER_DUMP_COMMAND_H
#define MQKV_TOOLS_TRANSFER_DUMP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct dump_options {
    const char *prefix;
    bool force;   /* replace a file that exists */
    int compress; /* enum dump_compression; below 0: the name of the file decides */
};
enum dump_compression { DUMP_PLAIN, DUMP_ZSTD };
extern const struct option_row dump_option_rows[];
extern const struct dump_options dump_option_defaults;
int dump_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
