#include "tools/ops/top_report.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/time/clock.h"

/* The time between two looks. */
struct span {
    const struct metrics *before; /* NULL: there is no earlier look */
    const struct metrics *now;
    double seconds;
};

static double gain(double before, double now)
{
    return now > before ? now - before : 0;
}

/* Returns what was added per second. */
static double rate(const struct span *span, const char *name, const char *label)
{
    double before = span->before ? metrics_value(span->before, name, label) : 0;
    return gain(before, metrics_value(span->now, name, label)) / span->seconds;
}

static double rate_of_all(const struct span *span, const char *name)
{
    double before = span->before ? metrics_sum(span->before, name) : 0;
    return gain(before, metrics_sum(span->now, name)) / span->seconds;
}

static double stage_quantile(const struct span *span, const char *stage, double quantile)
{
    return metrics_quantile(span->before, span->now, "mqkv_stage_seconds", stage, quantile);
}

static void take_totals(struct top_report *report, const struct span *span)
{
    double hits = rate(span, "mqkv_reads_total", "hit");
    report->misses_per_s = rate(span, "mqkv_reads_total", "miss");
    report->hit_share = hits + report->misses_per_s > 0 ? hits / (hits + report->misses_per_s) : -1;
    report->direct_reads_per_s = rate(span, "mqkv_direct_reads_total", "");
    report->operations_per_s = rate_of_all(span, "mqkv_operations_total");
    report->messages_per_s = rate(span, "mqkv_messages_total", "");
    report->errors_per_s =
        rate_of_all(span, "mqkv_errors_total") - rate(span, "mqkv_errors_total", "not_found");
    report->received_per_s = rate(span, "mqkv_received_bytes_total", "");
    report->sent_per_s = rate(span, "mqkv_sent_bytes_total", "");
    report->work_p50_s = stage_quantile(span, "work", 0.5);
    report->work_p99_s = stage_quantile(span, "work", 0.99);
    report->queue_p99_s = stage_quantile(span, "queue_wait", 0.99);
    report->lock_p99_s = stage_quantile(span, "lock_wait", 0.99);
    report->disk_p99_s = stage_quantile(span, "commit", 0.99);
}

static void report_take_state(struct top_report *report, const struct metrics *now)
{
    double started_s = metrics_value(now, "mqkv_start_time_seconds", "");
    report->uptime_s = (double)clock_realtime_ms() / 1e3 - started_s;
    report->memory_bytes = metrics_value(now, "mqkv_resident_memory_bytes", "");
    report->disk_free_bytes = metrics_value(now, "mqkv_disk_free_bytes", "");
    report->disk_bytes = metrics_value(now, "mqkv_disk_bytes", "");
    report->unsynced_bytes = metrics_value(now, "mqkv_unsynced_bytes", "");
    report->replies_waiting = metrics_value(now, "mqkv_replies_waiting_for_sync", "");
    report->bad_files =
        metrics_value(now, "mqkv_read_only_files", "") + metrics_value(now, "mqkv_full_files", "");
    report->sessions = metrics_sum(now, "mqkv_sessions");
    report->sessions_max = metrics_value(now, "mqkv_sessions_max", "");
    struct metric_family sessions = metrics_family(now, "mqkv_sessions");
    for (size_t i = 0; i < sessions.count && report->user_count < TOP_MAX_USERS; i++)
        report->users[report->user_count++] =
            (struct top_user){sessions.samples[i].label, sessions.samples[i].value};
}

static void take_kind(struct top_report *report, const struct span *span, const char *name,
                      double total, double per_second)
{
    double count = rate(span, "mqkv_work_seconds_count", name);
    double sum_s = rate(span, "mqkv_work_seconds_sum", name);
    if (total <= 0 || report->kind_count == TOP_MAX_KINDS)
        return;
    report->kinds[report->kind_count++] = (struct top_kind){
        .name = name,
        .per_second = per_second,
        .total = total,
        .mean_s = count > 0 ? sum_s / count : 0,
        .p50_s = metrics_quantile(span->before, span->now, "mqkv_work_seconds", name, 0.5),
        .p99_s = metrics_quantile(span->before, span->now, "mqkv_work_seconds", name, 0.99)};
}

/* Returns the value of file i. All these families have one sample for each file. */
static double of_file(const struct metric_family *family, size_t i)
{
    return i < family->count ? family->samples[i].value : 0;
}

static bool report_take_files(struct top_report *report, const struct span *span)
{
    const struct metrics *now = span->now;
    struct metric_family appended = metrics_family(now, "mqkv_file_appended_bytes_total");
    struct metric_family before = {NULL, 0};
    if (span->before)
        before = metrics_family(span->before, "mqkv_file_appended_bytes_total");
    struct metric_family keys = metrics_family(now, "mqkv_file_keys");
    struct metric_family live = metrics_family(now, "mqkv_file_live_bytes");
    struct metric_family dead = metrics_family(now, "mqkv_file_dead_bytes");
    struct metric_family unsynced = metrics_family(now, "mqkv_file_unsynced_seconds");
    report->files = calloc(appended.count + 1, sizeof *report->files);
    if (!report->files)
        return false;
    report->file_count = appended.count;
    for (size_t i = 0; i < appended.count; i++) {
        double written = gain(of_file(&before, i), of_file(&appended, i));
        report->files[i] = (struct top_file){.name = appended.samples[i].label,
                                             .written_per_s = written / span->seconds,
                                             .keys = of_file(&keys, i),
                                             .live_bytes = of_file(&live, i),
                                             .dead_bytes = of_file(&dead, i),
                                             .unsynced_s = of_file(&unsynced, i)};
        if (report->files[i].unsynced_s > report->oldest_s)
            report->oldest_s = report->files[i].unsynced_s;
    }
    return true;
}

/* Returns a time by which one may divide. */
static double at_least_some(double seconds)
{
    return seconds > 0.001 ? seconds : 0.001;
}

bool top_report_make(struct top_report *report, const struct metrics *before,
                     const struct metrics *now, double seconds)
{
    struct span span = {before, now, at_least_some(seconds)};
    bool same_server = before && metrics_value(before, "mqkv_start_time_seconds", "") ==
                                     metrics_value(now, "mqkv_start_time_seconds", "");
    if (!same_server) {
        double started_s = metrics_value(now, "mqkv_start_time_seconds", "");
        span.before = NULL;
        span.seconds = at_least_some((double)clock_realtime_ms() / 1e3 - started_s);
    }
    *report = (struct top_report){.seconds = span.seconds};
    take_totals(report, &span);
    report_take_state(report, now);
    struct metric_family totals = metrics_family(span.now, "mqkv_operations_total");
    for (size_t i = 0; i < totals.count; i++)
        take_kind(report, &span, totals.samples[i].label, totals.samples[i].value,
                  rate(&span, "mqkv_operations_total", totals.samples[i].label));
    take_kind(report, &span, "batch", metrics_value(span.now, "mqkv_work_seconds_count", "batch"),
              rate(&span, "mqkv_work_seconds_count", "batch"));
    return report_take_files(report, &span);
}

void top_report_free(struct top_report *report)
{
    free(report->files);
    report->files = NULL;
}

/* Sorting -------------------------------------------------------------------------------------- */

const char *top_order_name(enum top_order order)
{
    static const char *const names[TOP_ORDERS] = {"rate", "total", "latency", "name"};
    return names[order];
}

/* Sorts what is more first. */
static int compare_rows(double a, double b, const char *name_a, const char *name_b)
{
    return a < b ? 1 : a > b ? -1 : strcmp(name_a, name_b);
}

static int compare_kinds(const void *a, const void *b, void *order)
{
    const struct top_kind *x = a, *y = b;
    switch (*(const enum top_order *)order) {
    case TOP_BY_RATE:
        return compare_rows(x->per_second, y->per_second, x->name, y->name);
    case TOP_BY_TOTAL:
        return compare_rows(x->total, y->total, x->name, y->name);
    case TOP_BY_LATENCY:
        return compare_rows(x->p99_s, y->p99_s, x->name, y->name);
    case TOP_BY_NAME:
    case TOP_ORDERS:
        break;
    }
    return strcmp(x->name, y->name);
}

/* Compares files by their names, which are numbers. */
static int compare_files(const void *a, const void *b, void *order)
{
    const struct top_file *x = a, *y = b;
    switch (*(const enum top_order *)order) {
    case TOP_BY_RATE:
        return compare_rows(x->written_per_s, y->written_per_s, x->name, y->name);
    case TOP_BY_TOTAL:
        return compare_rows(x->live_bytes + x->dead_bytes, y->live_bytes + y->dead_bytes, x->name,
                            y->name);
    case TOP_BY_LATENCY:
        return compare_rows(x->unsynced_s, y->unsynced_s, x->name, y->name);
    case TOP_BY_NAME:
    case TOP_ORDERS:
        break;
    }
    return compare_rows(atof(y->name), atof(x->name), x->name, y->name);
}

void top_report_sort(struct top_report *report, enum top_order order)
{
    qsort_r(report->kinds, report->kind_count, sizeof report->kinds[0], compare_kinds, &order);
    qsort_r(report->files, report->file_count, sizeof report->files[0], compare_files, &order);
}
