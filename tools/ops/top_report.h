/*
 * top_report: what happened at the server between two looks at its metrics.
 */
#ifndef MQKV_TOOLS_OPS_TOP_REPORT_H
#define MQKV_TOOLS_OPS_TOP_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/ops/metrics_reader.h"

#define TOP_MAX_KINDS 32u
#define TOP_MAX_USERS 40u

/* The column by which tables are sorted. */
enum top_order { TOP_BY_RATE, TOP_BY_TOTAL, TOP_BY_LATENCY, TOP_BY_NAME, TOP_ORDERS };

/* One kind of operation. Times are those of messages that ask for one such operation only. */
struct top_kind {
    const char *name; /* its name in the metrics */
    double per_second, total, mean_s, p50_s, p99_s;
};

struct top_file {
    const char *name;
    double written_per_s, keys, live_bytes, dead_bytes, unsynced_s;
};

struct top_user {
    const char *uid;
    double sessions;
};

struct top_report {
    double seconds; /* time between the looks */
    double uptime_s;
    double operations_per_s, messages_per_s, errors_per_s, misses_per_s;
    double direct_reads_per_s;
    double hit_share; /* reads of one key that found it; below 0: there were none */
    double received_per_s, sent_per_s;
    double work_p50_s, work_p99_s, queue_p99_s, lock_p99_s, disk_p99_s;
    double sessions, sessions_max, memory_bytes;
    double disk_free_bytes, disk_bytes; /* 0: unknown */
    double unsynced_bytes, oldest_s, replies_waiting, bad_files;
    struct top_kind kinds[TOP_MAX_KINDS];
    size_t kind_count;
    struct top_user users[TOP_MAX_USERS];
    size_t user_count;
    struct top_file *files; /* on the heap */
    size_t file_count;
};

/* Fills in the report, whose texts stay in *now. before NULL, or of another start of the server:
 * what happened since the start. False: out of memory. */
bool top_report_make(struct top_report *report, const struct metrics *before,
                     const struct metrics *now, double seconds);
void top_report_free(struct top_report *report);

void top_report_sort(struct top_report *report, enum top_order order);
const char *top_order_name(enum top_order order);

/* Prints the report as text, at most `rows` rows of each table, without escapes. */
void top_report_print(const struct top_report *report, size_t rows, FILE *stream);

/* Prints the report as one JSON object and a newline. */
void top_report_print_json(const struct top_report *report, FILE *stream);

#endif
