#include "clientk/program/ops/top.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/ops/json_reader.h"
#include "clientk/program/ops/stats.h"
#include "common/time/clock.h"

#define MAX_COUNTERS 1024
#define CLEAR_SCREEN "\033[H\033[2J"

const struct option_row top_option_rows[] = {
    {"interval", 'i', OPTION_DURATION_MS, "MS", "time between two updates (default 1s)",
     OPTION_FIELD(struct top_options, interval_ms), .min = 100, .max = 3600000},
    {"count", 'c', OPTION_NUMBER, "N", "number of updates (default: until Ctrl-C)",
     OPTION_FIELD(struct top_options, count), .min = 1, .max = UINT64_MAX},
    {"lines", 0, OPTION_NUMBER, "N", "counters to show at most (default 20)",
     OPTION_FIELD(struct top_options, lines), .min = 1, .max = MAX_COUNTERS},
    {.name = NULL},
};
const struct top_options top_option_defaults = {.interval_ms = 1000, .lines = 20};

struct counter {
    char path[96];
    double value;
    double per_second;
};

struct look {
    uint64_t taken_ns;
    size_t count;
    struct counter counters[MAX_COUNTERS];
};

/* Times are not counters: NAME_ms, NAME_us, NAME_ns. */
static bool is_time(const char *name)
{
    size_t size = strlen(name);
    return size > 3 && name[size - 3] == '_' && name[size - 1] == 's' &&
           strchr("mun", name[size - 2]);
}

/* Collects all numbers of the document with their paths. */
static void collect(struct look *look, const struct json_value *value, const char *path)
{
    unsigned index = 0;
    for (const struct json_value *child = value->first; child; child = child->next, index++) {
        char child_path[sizeof look->counters[0].path], number[12];
        snprintf(number, sizeof number, "%u", index);
        snprintf(child_path, sizeof child_path, "%.50s%s%.40s", path, *path ? "." : "",
                 child->name ? child->name : number);
        if (child->kind == JSON_NUMBER && look->count < MAX_COUNTERS && !is_time(child_path)) {
            struct counter *counter = &look->counters[look->count++];
            memcpy(counter->path, child_path, sizeof child_path);
            counter->value = child->number;
            counter->per_second = 0;
        }
        collect(look, child, child_path);
    }
}

static enum kv_status take_look(struct cli_context *context, struct look *look)
{
    struct clientk_value text = {0};
    look->count = 0;
    enum kv_status status = clientk_stats(context->client, NULL, &text);
    look->taken_ns = clock_monotonic_ns();
    struct json_value *document = status == KV_OK ? json_parse(text.data, text.size) : NULL;
    if (document)
        collect(look, document, "");
    json_free(document);
    clientk_value_free(&text);
    return status;
}

/* Fills in the gain of each counter since the last update; a counter stays near its place. */
static void compute_rates(struct look *now, const struct look *before)
{
    double seconds = (double)(now->taken_ns - before->taken_ns) / 1e9;
    for (size_t i = 0; i < now->count; i++) {
        size_t j = i < before->count ? i : 0;
        for (size_t tries = 0; tries < before->count; tries++, j = (j + 1) % before->count) {
            if (strcmp(before->counters[j].path, now->counters[i].path) == 0) {
                now->counters[i].per_second =
                    (now->counters[i].value - before->counters[j].value) / seconds;
                break;
            }
        }
    }
}

static int faster_first(const void *a, const void *b)
{
    const struct counter *first = a, *second = b;
    double x = fabs(first->per_second), y = fabs(second->per_second);
    return x < y ? 1 : x > y ? -1 : strcmp(first->path, second->path);
}

static void show(struct output *output, const struct look *look, uint64_t lines)
{
    struct look sorted = *look;
    qsort(sorted.counters, sorted.count, sizeof sorted.counters[0], faster_first);
    char when[40];
    time_t now = time(NULL);
    struct tm local;
    strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now, &local));
    fprintf(output->stream, "%s%s  %-44s %14s %18s\n", output->terminal ? CLEAR_SCREEN : "", when,
            "changing", "per second", "now");
    for (size_t i = 0; i < sorted.count && i < lines; i++) {
        const struct counter *counter = &sorted.counters[i];
        if (counter->per_second == 0)
            break;
        fprintf(output->stream, "          %-44.44s %14.1f %18.0f\n", counter->path,
                counter->per_second, counter->value);
    }
    fprintf(output->stream, "%s", output->terminal ? "\nCtrl-C ends\n" : "\n");
    fflush(output->stream);
}

static enum kv_status watch(struct cli_context *context, const struct top_options *options,
                            struct look looks[2])
{
    enum kv_status status = take_look(context, &looks[0]);
    for (uint64_t i = 1; status == KV_OK && !interrupt_pending(); i++) {
        struct timespec pause = {(time_t)(options->interval_ms / 1000),
                                 (long)(options->interval_ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
        if (interrupt_pending())
            break;
        status = take_look(context, &looks[i % 2]);
        compute_rates(&looks[i % 2], &looks[(i + 1) % 2]);
        if (status == KV_OK)
            show(&context->output, &looks[i % 2], options->lines);
        if (i == options->count || ferror(context->output.stream))
            break;
    }
    return status;
}

int top_run(struct cli_context *context, const void *options, const struct word *operands,
            size_t count)
{
    (void)operands, (void)count;
    context->patient = true;
    int code = cli_connect_for(context, "top");
    if (code != EXIT_DONE)
        return code;
    struct look *looks = calloc(2, sizeof *looks);
    if (!looks)
        return output_failure(&context->output, "top", KV_NO_MEMORY, NULL);
    enum kv_status status = watch(context, options, looks);
    free(looks);
    bool interrupted = interrupt_pending(); /* Ctrl-C is how it ends */
    interrupt_clear();
    if (status != KV_OK && !interrupted)
        return output_failure(&context->output, "top", status, cli_sentence(status));
    return EXIT_DONE;
}
