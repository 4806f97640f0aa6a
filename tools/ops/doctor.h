/*
 * doctor: checks all that clients need: kernel limits and their use, the server and its queues,
 * permissions, its data files and their disk, the configuration, other users, shared memory. Prints
 * the commands that raise limits, and with --fix those that mend what is wrong. Removes what killed
 * processes of this user left, but for --fix without --clean.
 */
#ifndef MQKV_TOOLS_OPS_DOCTOR_H
#define MQKV_TOOLS_OPS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"
#include "common/options/option_table.h"

struct doctor_options {
    bool fix;   /* print the commands that mend, not the findings, and remove nothing */
    bool clean; /* with --fix: remove what killed processes left */
};
extern const struct option_row doctor_option_rows[];
extern const struct doctor_options doctor_option_defaults;

/* Exit code 0: all well; 1: a problem, marked BAD; 3: no server, or it does not answer. */
int doctor_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count);

#endif
