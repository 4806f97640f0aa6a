/*
 * bench_keyspace: which keys a bench may use in a store that others use, too.
 */
#ifndef MQKV_TOOLS_BENCH_BENCH_KEYSPACE_H
#define MQKV_TOOLS_BENCH_BENCH_KEYSPACE_H

#include "tools/bench/bench_options.h"
#include "clientk/program/cli/cli_context.h"

/* Looks into the store, unless the options say where the keys of the bench are to be (--prefix,
 * --cleanup, --preload) or it writes none. If the store has keys that no bench has written, and
 * none that an earlier bench of these options has left, the plan is made one with --cleanup, and a
 * line on stderr says so. If its keys are too short for that, the line says that they stay.
 * KV_OK, or the status with a sentence: no server. */
enum kv_status bench_keyspace_settle(const struct cli_context *context, struct bench_plan *plan,
                                     struct kv_error *error);

#endif
