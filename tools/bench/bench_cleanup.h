/*
 * bench_cleanup: deletes every key that a bench may have written (--cleanup).
 */
#ifndef MQKV_TOOLS_BENCH_BENCH_CLEANUP_H
#define MQKV_TOOLS_BENCH_BENCH_CLEANUP_H

#include "tools/bench/bench_options.h"
#include "clientk/program/cli/cli_context.h"

/* Deletes the keys. It works after an interrupt, too, which is pending again afterwards; another
 * interrupt ends it. Keys of the plan that are not there are no error. */
enum kv_status bench_cleanup(const struct cli_context *context, const struct bench_plan *plan,
                             struct kv_error *error);

#endif
