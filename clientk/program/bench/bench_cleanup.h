/*
 * bench_cleanup: deletes every key that a bench may have written (--cleanup).
 */
#ifndef MQKV_CLIENTK_PROGRAM_BENCH_BENCH_CLEANUP_H
#define MQKV_CLIENTK_PROGRAM_BENCH_BENCH_CLEANUP_H

#include "clientk/program/bench/bench_options.h"
#include "clientk/program/cli/cli_context.h"

/* Also after an interrupt, which is then noted anew; another one ends it. Keys of the plan that are
 * not there are no error. */
enum kv_status bench_cleanup(const struct cli_context *context, const struct bench_plan *plan,
                             struct kv_error *error);

#endif
