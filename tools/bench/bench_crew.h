/*
 * bench_crew: the threads of a bench, in this process or spread over several: starts them together,
 * waits for them and keeps their tallies.
 */
#ifndef MQKV_TOOLS_BENCH_BENCH_CREW_H
#define MQKV_TOOLS_BENCH_BENCH_CREW_H

#include <stdint.h>

#include "tools/bench/bench_options.h"
#include "tools/bench/bench_thread.h"
#include "clientk/program/cli/cli_context.h"

/* Its tallies are in memory that processes share. */
struct bench_crew; /* opaque */

/* Makes the crew. KV_NO_MEMORY with a sentence. */
enum kv_status bench_crew_create(const struct bench_plan *plan, struct bench_crew **crew,
                                 struct kv_error *error);

/* Connects the threads, starts them and waits for them, with a progress line on a terminal. KV_OK,
 * or the error of a thread or process. The context must not be connected (its processes would share
 * the connection). */
enum kv_status bench_crew_run(struct bench_crew *crew, const struct cli_context *context,
                              struct kv_error *error);

/* The tally of thread index 0..threads-1, and when measuring began; valid after the run. */
const struct bench_tally *bench_crew_tally(const struct bench_crew *crew, uint64_t index);
uint64_t bench_crew_measure_ns(const struct bench_crew *crew);

void bench_crew_free(struct bench_crew *crew); /* NULL is harmless */

#endif
