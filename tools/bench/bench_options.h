/*
 * bench_options: the options of `clientk bench`, checked.
 */
#ifndef MQKV_TOOLS_BENCH_BENCH_OPTIONS_H
#define MQKV_TOOLS_BENCH_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "tools/bench/distribution.h"
#include "tools/bench/workload.h"
#include "common/numbers/cpu_list.h"
#include "common/numbers/delay.h"
#include "mqkv/error.h"

#define BENCH_MAX_THREADS 1000u
#define BENCH_MAX_BATCH   4096u

/* The options as typed. */
struct bench_options {
    uint64_t threads, processes;
    const char *value_size, *mix;
    double seconds;
    uint64_t count;       /* number of operations in all; 0: the time decides */
    double rate;          /* operations per second in all; 0: closed loop */
    struct delay think;   /* pause of a thread between an answer and its next message */
    struct cpu_list cpus; /* CPUs that the threads are bound to */
    uint64_t batch, window;
    uint64_t keys, key_bytes;
    int distribution; /* enum distribution_kind */
    double theta;
    uint64_t scan_length;
    bool scan_atomic;    /* a scan lists everything, with a consistent view of each data file */
    uint64_t add_most;   /* adds add a number from -add_most to add_most except 0; 0: they add 1 */
    const char *add_min; /* NULL: adds have no lower bound */
    double warmup_seconds;
    bool preload, verify, cleanup;
    const char
        *prefix; /* what all keys begin with; NULL: nothing, but with cleanup CLEANUP_PREFIX */
    uint64_t seed;
    const char *histogram_path;
};
extern const struct option_row bench_option_rows[];
extern const struct bench_options bench_option_defaults;

/* The options as understood: constant while threads run, shared by the threads and processes. */
struct bench_plan {
    struct bench_options options;
    struct workload_mix mix;
    struct workload_sizes sizes;
    struct distribution distribution;
    struct workload_values *values;
    int64_t add_min;    /* a sum must not fall below it */
    const char *prefix; /* "": none */
    size_t prefix_bytes;
};

/* Checks the options and makes the plan. KV_USAGE, KV_NO_MEMORY with a sentence. The caller calls
 * bench_plan_free in any case. */
enum kv_status bench_plan_make(struct bench_plan *plan, const struct bench_options *options,
                               struct kv_error *error);
void bench_plan_free(struct bench_plan *plan);

/* Makes a plan without a prefix one with --cleanup. False if its keys are too short: nothing has
 * changed. Before the first of its keys is made. */
bool bench_plan_keep_apart(struct bench_plan *plan);

/* A key of the plan has options.key_bytes: its prefix, which is written once, and then what tells
 * it from the others. */
void bench_plan_begin_key(const struct bench_plan *plan, char *key);
void bench_plan_end_key(const struct bench_plan *plan, char *key, enum workload_kind kind,
                        uint64_t number);

#endif
