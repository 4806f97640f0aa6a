/*
 * bench_report: the result of a bench as text, CSV and JSON.
 */
#ifndef MQKV_TOOLS_BENCH_BENCH_REPORT_H
#define MQKV_TOOLS_BENCH_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bench/bench_crew.h"
#include "tools/bench/bench_options.h"
#include "clientk/program/cli/output.h"
#include "common/numbers/histogram.h"

struct bench_report {
    const struct bench_plan *plan;
    uint64_t ops, misses, mismatches, errors;
    uint64_t direct_reads; /* reads that needed no message, those of the warm-up too */
    double seconds;
    uint64_t statuses[KV_STATUS_COUNT];
    struct histogram all;
    struct histogram kinds[WORKLOAD_KINDS];
};

/* Sums up a crew that has run. NULL: no memory. Free with free(). */
struct bench_report *bench_report_make(const struct bench_plan *plan,
                                       const struct bench_crew *crew);

/* Prints the report in the output's format; raw is as text. */
void bench_report_print(struct output *output, const struct bench_report *report);

/* Prints the percentile distribution in the four columns of HdrHistogram (Gil Tene), values in
 * microseconds: value, percentile, count up to it, 1/(1-percentile). */
void bench_report_print_distribution(FILE *stream, const struct histogram *histogram);

#endif
