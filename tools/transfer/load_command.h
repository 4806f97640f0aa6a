/*
 * load_command: stores the entries of a dump (dump_format.h).
 */
#ifndef MQKV_TOOLS_TRANSFER_LOAD_COMMAND_H
#define MQKV_TOOLS_TRANSFER_LOAD_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct load_options {
    bool force;     /* load a dump even if it is damaged */
    bool if_absent; /* skip keys that exist */
    uint64_t from;  /* the first line to load; 0: the first of the file */
};
extern const struct option_row load_option_rows[];
extern const struct load_options load_option_defaults;
int load_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
