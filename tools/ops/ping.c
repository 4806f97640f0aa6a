#include "tools/ops/ping.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clientk/program/cli/interrupt.h"
#include "common/numbers/histogram.h"
#include "common/text/parse.h"

const struct option_row ping_option_rows[] = {
    {"count", 'c', OPTION_NUMBER, "N", "round trips (default 1)",
     OPTION_FIELD(struct ping_options, count), .min = 1, .max = 1000000000},
    {"interval", 'i', OPTION_DURATION_MS, "MS", "pause between round trips (default none)",
     OPTION_FIELD(struct ping_options, interval_ms), .max = 3600000},
    {.name = NULL},
};
const struct ping_options ping_option_defaults = {.count = 1};

/* Pings until all are done, interrupted or failed; adds the times to the histogram. */
static enum kv_status ping_often(struct cli_context *context, const struct ping_options *options,
                                 struct histogram *round_trips)
{
    for (uint64_t i = 0; i < options->count && !interrupt_pending(); i++) {
        uint64_t round_trip_ns;
        if (i > 0) {
            struct timespec pause = {(time_t)(options->interval_ms / 1000),
                                     (long)(options->interval_ms % 1000) * 1000000};
            if (options->interval_ms > 0)
                nanosleep(&pause, NULL); /* Ctrl-C ends the pause */
        }
        enum kv_status status = clientk_ping(context->client, &round_trip_ns);
        if (status != KV_OK)
            return status;
        histogram_record(round_trips, round_trip_ns);
    }
    return KV_OK;
}

static void print_single(struct output *output, const struct histogram *round_trips)
{
    char time[32], text[48];
    snprintf(text, sizeof text, "OK %s", format_duration_ns(round_trips->max_ns, time));
    struct answer answer = {.command = "ping",
                            .text = text,
                            .has_number = true,
                            .number = (int64_t)round_trips->max_ns};
    output_answer(output, &answer);
}

static const struct {
    const char *name;
    double fraction;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
#define QUANTILES (sizeof quantiles / sizeof quantiles[0])

static void print_pings_json(FILE *stream, const struct histogram *round_trips)
{
    fprintf(stream, "{\"command\":\"ping\",\"status\":\"ok\",\"count\":%" PRIu64,
            round_trips->total_count);
    fprintf(stream, ",\"min_us\":%.3f,\"mean_us\":%.3f", (double)round_trips->min_ns / 1e3,
            histogram_mean_ns(round_trips) / 1e3);
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(stream, ",\"%s_us\":%.3f", quantiles[i].name,
                (double)histogram_quantile_ns(round_trips, quantiles[i].fraction) / 1e3);
    fprintf(stream, ",\"max_us\":%.3f}\n", (double)round_trips->max_ns / 1e3);
}

/* Prints columns of its own, so that an answer that follows needs its header again. */
static void print_pings_csv(struct output *output, const struct histogram *round_trips)
{
    FILE *stream = output->stream;
    fputs("count,min_us,mean_us", stream);
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(stream, ",%s_us", quantiles[i].name);
    fprintf(stream, ",max_us\n%" PRIu64 ",%.3f,%.3f", round_trips->total_count,
            (double)round_trips->min_ns / 1e3, histogram_mean_ns(round_trips) / 1e3);
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(stream, ",%.3f",
                (double)histogram_quantile_ns(round_trips, quantiles[i].fraction) / 1e3);
    fprintf(stream, ",%.3f\n", (double)round_trips->max_ns / 1e3);
    output->csv_started = false;
}

static void print_pings_text(FILE *stream, const struct histogram *round_trips)
{
    char text[32];
    fprintf(stream, "%" PRIu64 " round trips: min %s", round_trips->total_count,
            format_duration_ns(round_trips->min_ns, text));
    fprintf(stream, ", mean %s",
            format_duration_ns((uint64_t)histogram_mean_ns(round_trips), text));
    for (size_t i = 0; i < QUANTILES; i++)
        fprintf(
            stream, ", %s %s", quantiles[i].name,
            format_duration_ns(histogram_quantile_ns(round_trips, quantiles[i].fraction), text));
    fprintf(stream, ", max %s\n", format_duration_ns(round_trips->max_ns, text));
}

static void print_many(struct output *output, const struct histogram *round_trips)
{
    if (output->format == OUTPUT_JSON)
        print_pings_json(output->stream, round_trips);
    else if (output->format == OUTPUT_CSV)
        print_pings_csv(output, round_trips);
    else
        print_pings_text(output->stream, round_trips);
}

int ping_run(struct cli_context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    (void)operands, (void)count;
    const struct ping_options *options = options_given;
    int code = cli_connect_for(context, "ping");
    if (code != EXIT_DONE)
        return code;
    struct histogram *round_trips = calloc(1, sizeof *round_trips);
    if (!round_trips)
        return output_failure(&context->output, "ping", KV_NO_MEMORY, NULL);
    enum kv_status status = ping_often(context, options, round_trips);
    if (options->count > 1 && round_trips->total_count > 0)
        print_many(&context->output, round_trips);
    else if (status == KV_OK && round_trips->total_count > 0)
        print_single(&context->output, round_trips);
    free(round_trips);
    if (status != KV_OK)
        return output_failure(&context->output, "ping", status, cli_sentence(status));
    return EXIT_DONE;
}

int sync_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count)
{
    (void)options, (void)operands, (void)count;
    int code = cli_connect_for(context, "sync");
    if (code != EXIT_DONE)
        return code;
    enum kv_status status = clientk_sync(context->client);
    struct answer answer = {.command = "sync",
                            .status = status,
                            .sentence = status == KV_OK ? NULL : cli_sentence(status)};
    return output_answer(&context->output, &answer);
}
