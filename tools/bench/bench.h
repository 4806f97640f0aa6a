/*
 * bench: the command that measures a server under load.
 */
#ifndef MQKV_TOOLS_BENCH_BENCH_H
#define MQKV_TOOLS_BENCH_BENCH_H

#include <stddef.h>

#include "tools/bench/bench_options.h"
#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"

/* Runs a bench. Exit code 4: an operation failed or a value was wrong. */
int bench_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

#endif
