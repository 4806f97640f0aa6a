#include "tools/ops/top.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clientk/program/cli/interrupt.h"
#include "tools/ops/metrics_command.h"
#include "tools/ops/top_report.h"
#include "tools/ops/top_screen.h"
#include "common/time/clock.h"

#define MAX_LINES       1024
#define MIN_INTERVAL_MS 100
#define MAX_INTERVAL_MS 3600000

/* The lines of a page besides the rows of the two tables. */
#define OTHER_LINES 12u

static const char *order_name(int order)
{
    return order < TOP_ORDERS ? top_order_name((enum top_order)order) : NULL;
}

const struct option_row top_option_rows[] = {
    {"interval", 'i', OPTION_DURATION_MS, "MS", "time between two updates (default 1s)",
     OPTION_FIELD(struct top_options, interval_ms), .min = MIN_INTERVAL_MS, .max = MAX_INTERVAL_MS},
    {"count", 'c', OPTION_NUMBER, "N", "number of updates (default: until Ctrl-C)",
     OPTION_FIELD(struct top_options, count), .min = 1, .max = UINT64_MAX},
    {"lines", 0, OPTION_NUMBER, "N", "rows of each table to show at most (default 20)",
     OPTION_FIELD(struct top_options, lines), .min = 1, .max = MAX_LINES},
    {"sort", 0, OPTION_CHOICE, "BY", "rate|total|latency|name (default rate)",
     OPTION_FIELD(struct top_options, order), .choice_name = order_name},
    {.name = NULL},
};
const struct top_options top_option_defaults = {.interval_ms = 1000, .lines = 20};

struct look {
    uint64_t taken_ns;
    struct metrics metrics;
};

struct top {
    struct cli_context *context;
    struct top_options options;
    struct top_screen *screen; /* NULL: the output is no terminal, or gets JSON */
    struct look looks[2];
    unsigned taken; /* looks up to now; the last is looks[(taken - 1) % 2] */
    bool leave;
    bool show_keys;
};

/* Looking -------------------------------------------------------------------------------------- */

static enum kv_status look_at_metrics(struct top *top)
{
    struct look *look = &top->looks[top->taken % 2];
    struct clientk_value text = {0};
    enum kv_status status = clientk_stats(top->context->client, METRICS_SECTION, &text);
    metrics_free(&look->metrics);
    look->taken_ns = clock_monotonic_ns();
    if (status == KV_OK && !metrics_read(&look->metrics, text.data, text.size))
        status = KV_NO_MEMORY;
    clientk_value_free(&text);
    top->taken++;
    return status;
}

/* Showing -------------------------------------------------------------------------------------- */

static enum kv_status show_page(struct top *top, const struct top_report *report)
{
    char *text = NULL;
    size_t size = 0, rows = top_screen_rows(top->screen);
    FILE *page = open_memstream(&text, &size);
    if (!page)
        return KV_NO_MEMORY;
    size_t left = rows > OTHER_LINES ? rows - OTHER_LINES : 0;
    size_t lines = report->kind_count < left / 2 ? left - report->kind_count : (left + 1) / 2;
    top_report_print(report, lines < top->options.lines ? lines : top->options.lines, page);
    if (top->show_keys)
        fputs("\nr rate, t total, l latency, n name; + - interval; blank: now; q quit\n", page);
    else
        fprintf(page, "\nevery %.1f s, sorted by %s; h: keys\n",
                (double)top->options.interval_ms / 1e3,
                top_order_name((enum top_order)top->options.order));
    enum kv_status status = fclose(page) == 0 ? KV_OK : KV_NO_MEMORY;
    if (status == KV_OK)
        top_screen_show(top->screen, text);
    free(text);
    return status;
}

/* Shows the last look; the first shows what happened since the server's start. */
static enum kv_status show_report(struct top *top)
{
    const struct look *now = &top->looks[(top->taken + 1) % 2];
    const struct look *before = top->taken > 1 ? &top->looks[top->taken % 2] : NULL;
    struct output *output = &top->context->output;
    struct top_report report;
    double seconds = before ? (double)(now->taken_ns - before->taken_ns) / 1e9 : 0;
    if (!top_report_make(&report, before ? &before->metrics : NULL, &now->metrics, seconds))
        return KV_NO_MEMORY;
    enum kv_status status = KV_OK;
    top_report_sort(&report, (enum top_order)top->options.order);
    if (top->screen) {
        status = show_page(top, &report);
    } else if (output->format == OUTPUT_JSON) {
        top_report_print_json(&report, output->stream);
    } else {
        top_report_print(&report, top->options.lines, output->stream);
        fputc('\n', output->stream);
    }
    fflush(output->stream);
    top_report_free(&report);
    return status;
}

/* Keys ----------------------------------------------------------------------------------------- */

/* Handles a key. True: the next look must be taken at once. */
static bool take_top_key(struct top *top, char key)
{
    static const char order_keys[] = "rtln"; /* enum top_order */
    top->show_keys = key == 'h' || key == '?';
    for (int order = 0; order < TOP_ORDERS; order++)
        if (key == order_keys[order])
            top->options.order = order;
    if (key == 's')
        top->options.order = (top->options.order + 1) % TOP_ORDERS;
    if (key == '+' || key == '-') {
        bool longer = key == '+';
        uint64_t ms = top->options.interval_ms;
        ms = longer ? ms * 2 : ms / 2;
        if (ms >= MIN_INTERVAL_MS && ms <= MAX_INTERVAL_MS)
            top->options.interval_ms = ms;
    }
    top->leave = key == 'q';
    return key == ' ';
}

/* The loop ------------------------------------------------------------------------------------- */

/* Waits until the next look is due; meanwhile keys and the size of the terminal change what is
 * shown. */
static enum kv_status wait_for_next(struct top *top)
{
    uint64_t begun_ns = clock_monotonic_ns();
    enum kv_status status = KV_OK;
    if (!top->screen) {
        struct timespec pause = {(time_t)(top->options.interval_ms / 1000),
                                 (long)(top->options.interval_ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
        return KV_OK;
    }
    while (status == KV_OK && !top->leave) {
        char key;
        uint64_t until_ns = begun_ns + top->options.interval_ms * 1000000;
        enum top_event event = top_screen_wait(top->screen, until_ns, &key);
        if (event == TOP_TIME || event == TOP_INTERRUPTED)
            break;
        if (event == TOP_KEY && take_top_key(top, key))
            break;
        if (!top->leave)
            status = show_report(top);
    }
    return status;
}

static enum kv_status run_top(struct top *top)
{
    enum kv_status status = look_at_metrics(top);
    if (status == KV_OK && top->screen)
        status = show_report(top);
    for (uint64_t i = 1; status == KV_OK; i++) {
        status = wait_for_next(top);
        if (status != KV_OK || top->leave || interrupt_pending())
            break;
        status = look_at_metrics(top);
        if (status == KV_OK)
            status = show_report(top);
        if (i == top->options.count || ferror(top->context->output.stream))
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
    struct top top = {.context = context, .options = *(const struct top_options *)options};
    bool page = context->output.terminal && context->output.format != OUTPUT_JSON;
    if (page && !(top.screen = top_screen_begin(context->output.stream)))
        return metrics_failure(context, "top", KV_NO_MEMORY);
    enum kv_status status = run_top(&top);
    top_screen_end(top.screen);
    metrics_free(&top.looks[0].metrics);
    metrics_free(&top.looks[1].metrics);
    bool interrupted = interrupt_pending(); /* Ctrl-C is the normal end */
    interrupt_clear();
    return status != KV_OK && !interrupted ? metrics_failure(context, "top", status) : EXIT_DONE;
}
