#include "tools/bench/bench_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/text/escape.h"
#include "common/text/parse.h"

struct quantile {
    const char *name, *title;
    double fraction;
};
static const struct quantile quantiles[] = {
    {"p50_us", "p50", 0.5},
    {"p90_us", "p90", 0.9},
    {"p99_us", "p99", 0.99},
    {"p999_us", "p99.9", 0.999},
};
#define QUANTILES (sizeof quantiles / sizeof quantiles[0])

/* Returns true if the status is an error; an unmet condition is none. */
static bool is_error(enum kv_status status)
{
    return status != KV_OK && status != KV_NOT_FOUND && status != KV_OUT_OF_BOUNDS;
}

struct bench_report *bench_report_make(const struct bench_plan *plan, const struct bench_crew *crew)
{
    struct bench_report *report = calloc(1, sizeof *report);
    if (!report)
        return NULL;
    uint64_t measure_ns = bench_crew_measure_ns(crew), last_end_ns = measure_ns;
    report->plan = plan;
    for (uint64_t i = 0; i < plan->options.threads; i++) {
        const struct bench_tally *tally = bench_crew_tally(crew, i);
        report->ops += tally->ops;
        report->misses += tally->misses;
        report->mismatches += tally->mismatches;
        report->direct_reads += tally->direct_reads;
        for (int status = 0; status < KV_STATUS_COUNT; status++) {
            report->statuses[status] += tally->statuses[status];
            if (is_error((enum kv_status)status))
                report->errors += tally->statuses[status];
        }
        for (int kind = 0; kind < WORKLOAD_KINDS; kind++) {
            histogram_merge(&report->kinds[kind], &tally->latencies[kind]);
            histogram_merge(&report->all, &tally->latencies[kind]);
        }
        if (tally->last_end_ns > last_end_ns)
            last_end_ns = tally->last_end_ns;
    }
    report->seconds = (double)(last_end_ns - measure_ns) / 1e9;
    return report;
}

static double us(double ns)
{
    return ns / 1e3;
}

static double ops_per_second(const struct bench_report *report)
{
    return report->seconds > 0 ? (double)report->ops / report->seconds : 0;
}

static char *format_sizes(const struct workload_sizes *sizes, char buffer[48])
{
    if (sizes->min == sizes->max)
        snprintf(buffer, 48, "%" PRIu64, sizes->min);
    else
        snprintf(buffer, 48, "%" PRIu64 "-%" PRIu64, sizes->min, sizes->max);
    return buffer;
}

/* Text ----------------------------------------------------------------------------------------- */

static void print_plan(FILE *stream, const struct bench_plan *plan)
{
    const struct bench_options *options = &plan->options;
    char sizes[48], mix[256];
    fprintf(stream, "%" PRIu64 " thread%s", options->threads, options->threads == 1 ? "" : "s");
    if (options->processes > 1)
        fprintf(stream, " in %" PRIu64 " processes", options->processes);
    fprintf(stream, ", %s, values of %s bytes, %" PRIu64 " keys of %" PRIu64 " bytes (%s)\n",
            workload_mix_format(&plan->mix, ' ', mix), format_sizes(&plan->sizes, sizes),
            options->keys, options->key_bytes, distribution_name(options->distribution));
    if (options->rate > 0)
        fprintf(stream, "open loop, %.0f operations/s, latency from the intended start",
                options->rate);
    else
        fprintf(stream, "closed loop%s", options->think.kind == DELAY_OFF ? "" : " with pauses");
    fprintf(stream, ", %" PRIu64 " operation%s per message", options->batch,
            options->batch == 1 ? "" : "s");
    if (options->window > 0)
        fprintf(stream, ", %" PRIu64 " messages in flight", options->window);
    fprintf(stream, ", warm-up %g s, seed %" PRIu64 "\n\n", options->warmup_seconds, options->seed);
}

static void print_latency_row(FILE *stream, const char *name, const struct histogram *latencies)
{
    fprintf(stream, "%-8s %11" PRIu64 " %10.1f", name, latencies->total_count,
            us(histogram_mean_ns(latencies)));
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(stream, " %10.1f",
                us((double)histogram_quantile_ns(latencies, quantiles[i].fraction)));
    fprintf(stream, " %10.1f\n", us((double)latencies->max_ns));
}

static void print_report_text(FILE *stream, const struct bench_report *report)
{
    print_plan(stream, report->plan);
    fprintf(stream, "%-8s %11s %10s", "us", "ops", "mean");
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(stream, " %10s", quantiles[i].title);
    fprintf(stream, " %10s\n", "max");
    for (int kind = 0; kind < WORKLOAD_KINDS; kind++)
        if (report->kinds[kind].total_count > 0)
            print_latency_row(stream, workload_kind_name((enum workload_kind)kind),
                              &report->kinds[kind]);
    print_latency_row(stream, "all", &report->all);
    fprintf(stream,
            "\n%" PRIu64 " operations in %.3f s: %.0f/s; %" PRIu64 " not found, %" PRIu64 " errors",
            report->ops, report->seconds, ops_per_second(report), report->misses, report->errors);
    if (report->plan->options.verify)
        fprintf(stream, ", %" PRIu64 " wrong values", report->mismatches);
    if (report->direct_reads > 0)
        fprintf(stream, "; %" PRIu64 " reads without a message", report->direct_reads);
    fputc('\n', stream);
    for (int status = 0; status < KV_STATUS_COUNT; status++)
        if (is_error((enum kv_status)status) && report->statuses[status] > 0)
            fprintf(stream, "  %" PRIu64 " x %s (%s)\n", report->statuses[status],
                    kv_status_name((enum kv_status)status), kv_status_text((enum kv_status)status));
}

/* CSV ------------------------------------------------------------------------------------------ */

static void print_report_csv(FILE *stream, const struct bench_report *report)
{
    const struct bench_options *options = &report->plan->options;
    char sizes[48], mix[256];
    fputs("threads,processes,mix,value_bytes,keys,key_bytes,dist,batch,window,rate_per_s,warmup_s,"
          "seed,ops,seconds,ops_per_s,mean_us,p50_us,p90_us,p99_us,p999_us,max_us,errors,not_found,"
          "wrong_values,direct_reads\n",
          stream);
    fprintf(stream,
            "%" PRIu64 ",%" PRIu64 ",%s,%s,%" PRIu64 ",%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64
            ",%g,%g,%" PRIu64,
            options->threads, options->processes, workload_mix_format(&report->plan->mix, ' ', mix),
            format_sizes(&report->plan->sizes, sizes), options->keys, options->key_bytes,
            distribution_name(options->distribution), options->batch, options->window,
            options->rate, options->warmup_seconds, options->seed);
    fprintf(stream, ",%" PRIu64 ",%.6f,%.1f,%.3f", report->ops, report->seconds,
            ops_per_second(report), us(histogram_mean_ns(&report->all)));
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(stream, ",%.3f",
                us((double)histogram_quantile_ns(&report->all, quantiles[i].fraction)));
    fprintf(stream, ",%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
            us((double)report->all.max_ns), report->errors, report->misses, report->mismatches,
            report->direct_reads);
}

/* JSON ----------------------------------------------------------------------------------------- */

static void print_json_latency(FILE *stream, const struct histogram *latencies)
{
    fprintf(stream, "\"ops\":%" PRIu64 ",\"mean_us\":%.3f", latencies->total_count,
            us(histogram_mean_ns(latencies)));
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(stream, ",\"%s\":%.3f", quantiles[i].name,
                us((double)histogram_quantile_ns(latencies, quantiles[i].fraction)));
    fprintf(stream, ",\"max_us\":%.3f", us((double)latencies->max_ns));
}

static void print_json_plan(FILE *stream, const struct bench_plan *plan)
{
    const struct bench_options *options = &plan->options;
    fprintf(stream, "\"plan\":{\"threads\":%" PRIu64 ",\"processes\":%" PRIu64 ",\"mix\":{",
            options->threads, options->processes);
    const char *comma = "";
    for (int kind = 0; kind < WORKLOAD_KINDS; kind++) {
        if (plan->mix.weights[kind] == 0)
            continue;
        fprintf(stream, "%s\"%s\":%" PRIu32, comma, workload_kind_name((enum workload_kind)kind),
                plan->mix.weights[kind]);
        comma = ",";
    }
    fprintf(stream,
            "},\"value_bytes_min\":%" PRIu64 ",\"value_bytes_max\":%" PRIu64 ",\"keys\":%" PRIu64
            ",\"key_bytes\":%" PRIu64 ",\"dist\":\"%s\",\"batch\":%" PRIu64 ",\"window\":%" PRIu64,
            plan->sizes.min, plan->sizes.max, options->keys, options->key_bytes,
            distribution_name(options->distribution), options->batch, options->window);
    fprintf(stream, ",\"think_us\":%.3f,\"prefix\":", options->think.time_ns / 1000);
    escape_print_json(stream, kv_slice_from_string(plan->prefix));
    fprintf(stream, ",\"rate_per_s\":%g,\"warmup_s\":%g,\"seed\":%" PRIu64 ",\"verify\":%s}",
            options->rate, options->warmup_seconds, options->seed,
            options->verify ? "true" : "false");
}

static void print_json_errors(FILE *stream, const struct bench_report *report)
{
    const char *comma = "";
    fprintf(stream, "\"errors\":%" PRIu64 ",\"errors_by_status\":{", report->errors);
    for (int status = 0; status < KV_STATUS_COUNT; status++) {
        if (!is_error((enum kv_status)status) || report->statuses[status] == 0)
            continue;
        fprintf(stream, "%s\"%s\":%" PRIu64, comma, kv_status_name((enum kv_status)status),
                report->statuses[status]);
        comma = ",";
    }
    fprintf(stream, "},\"not_found\":%" PRIu64 ",\"wrong_values\":%" PRIu64, report->misses,
            report->mismatches);
    fprintf(stream, ",\"direct_reads\":%" PRIu64, report->direct_reads);
}

static void print_report_json(FILE *stream, const struct bench_report *report)
{
    const char *comma = "";
    fputc('{', stream);
    print_json_plan(stream, report->plan);
    fprintf(stream, ",\"seconds\":%.6f,\"ops_per_s\":%.1f,", report->seconds,
            ops_per_second(report));
    print_json_latency(stream, &report->all);
    fputc(',', stream);
    print_json_errors(stream, report);
    fputs(",\"operations\":{", stream);
    for (int kind = 0; kind < WORKLOAD_KINDS; kind++) {
        if (report->kinds[kind].total_count == 0)
            continue;
        fprintf(stream, "%s\"%s\":{", comma, workload_kind_name((enum workload_kind)kind));
        print_json_latency(stream, &report->kinds[kind]);
        fputc('}', stream);
        comma = ",";
    }
    fputs("}}\n", stream);
}

void bench_report_print(struct output *output, const struct bench_report *report)
{
    switch (output->format) {
    case OUTPUT_TEXT:
    case OUTPUT_RAW:
        print_report_text(output->stream, report);
        break;
    case OUTPUT_JSON:
        print_report_json(output->stream, report);
        break;
    case OUTPUT_CSV:
        print_report_csv(output->stream, report);
        break;
    }
}

void bench_report_print_distribution(FILE *stream, const struct histogram *histogram)
{
    uint64_t total = histogram->total_count, seen = 0;
    fprintf(stream, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS && seen < total; bucket++) {
        if (histogram->counts[bucket] == 0)
            continue;
        seen += histogram->counts[bucket];
        uint64_t top_ns = histogram_bucket_top_ns(bucket);
        double value_us = us((double)(top_ns < histogram->max_ns ? top_ns : histogram->max_ns));
        double share = (double)seen / (double)total;
        if (seen < total)
            fprintf(stream, "%12.3f %2.12f %10" PRIu64 " %14.2f\n", value_us, share, seen,
                    1 / (1 - share));
        else
            fprintf(stream, "%12.3f %2.12f %10" PRIu64 "\n", us((double)histogram->max_ns), 1.0,
                    seen);
    }
    fprintf(stream, "#[Mean    = %12.3f, Max = %12.3f, Total count = %12" PRIu64 "]\n",
            us(histogram_mean_ns(histogram)), us((double)histogram->max_ns), total);
}
