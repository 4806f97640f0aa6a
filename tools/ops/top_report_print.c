/* top_report_print: the text and JSON of a top_report. */
#include "tools/ops/top_report.h"

#include <inttypes.h>
#include <time.h>

#include "common/text/escape.h"
#include "common/text/parse.h"

#define CELL_BYTES 32u

/* Text ----------------------------------------------------------------------------------------- */

/* Writes "12.3 us", or "-" for nothing. */
static const char *time_text(double seconds, char text[CELL_BYTES])
{
    if (seconds <= 0)
        return "-";
    return format_duration_ns((uint64_t)(seconds * 1e9), text);
}

/* Writes "29m55s", or two other units in a row; "12s" of less than a minute. */
static const char *uptime_text(double seconds, char text[CELL_BYTES])
{
    static const struct {
        const char *larger, *smaller;
        uint64_t larger_s, smaller_s;
    } units[] = {{"d", "h", 86400, 3600}, {"h", "m", 3600, 60}, {"m", "s", 60, 1}};
    uint64_t left = seconds > 0 && seconds < 1e12 ? (uint64_t)seconds : 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (left >= units[i].larger_s) {
            snprintf(text, CELL_BYTES, "%" PRIu64 "%s%" PRIu64 "%s", left / units[i].larger_s,
                     units[i].larger, left % units[i].larger_s / units[i].smaller_s,
                     units[i].smaller);
            return text;
        }
    snprintf(text, CELL_BYTES, "%" PRIu64 "s", left);
    return text;
}

static const char *bytes_text(double bytes, char text[CELL_BYTES])
{
    return format_size((uint64_t)bytes, text);
}

/* Returns the label if it is harmless: labels come from the server. */
static const char *safe(const char *label)
{
    return escape_is_printable(kv_slice_from_string(label), false) ? label : "?";
}

static void print_head(const struct top_report *report, FILE *stream)
{
    char a[CELL_BYTES], b[CELL_BYTES], when[CELL_BYTES];
    time_t now = time(NULL);
    struct tm local;
    strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now, &local));
    fprintf(stream, "%s  up %s, %.0f operations/s in %.0f messages/s", when,
            uptime_text(report->uptime_s, a), report->operations_per_s, report->messages_per_s);
    if (report->direct_reads_per_s > 0)
        fprintf(stream, ", %.0f reads in place/s", report->direct_reads_per_s);
    if (report->hit_share >= 0)
        fprintf(stream, ", %.1f %% hits", report->hit_share * 100);
    fprintf(stream, ", %.0f errors/s\n", report->errors_per_s);
    fprintf(stream, "bytes    %s/s in", bytes_text(report->received_per_s, a));
    fprintf(stream, ", %s/s out\n", bytes_text(report->sent_per_s, a));
    fprintf(stream, "time     work %s, 99 %%: %s", time_text(report->work_p50_s, a),
            time_text(report->work_p99_s, b));
    fprintf(stream, "; 99 %% of queue %s, locks %s", time_text(report->queue_p99_s, a),
            time_text(report->lock_p99_s, b));
    fprintf(stream, ", disk %s\n", time_text(report->disk_p99_s, a));
}

static void print_state(const struct top_report *report, FILE *stream)
{
    char text[CELL_BYTES];
    fprintf(stream, "sessions %.0f of %.0f", report->sessions, report->sessions_max);
    for (size_t i = 0; i < report->user_count; i++)
        fprintf(stream, "%s uid %s: %.0f", i == 0 ? ":" : ",", safe(report->users[i].uid),
                report->users[i].sessions);
    fprintf(stream, "\nmemory   %s", bytes_text(report->memory_bytes, text));
    if (report->disk_bytes > 0) {
        fprintf(stream, "; disk %s", bytes_text(report->disk_free_bytes, text));
        fprintf(stream, " free (%.0f %%)", 100 * report->disk_free_bytes / report->disk_bytes);
    }
    if (report->file_count > 0) {
        fprintf(stream, "; unsynced %s", bytes_text(report->unsynced_bytes, text));
        fprintf(stream, ", oldest %s, %.0f replies wait", time_text(report->oldest_s, text),
                report->replies_waiting);
    }
    fputc('\n', stream);
    if (report->bad_files > 0)
        fprintf(stream, "WARNING  %.0f data files take no writes: clientk doctor\n",
                report->bad_files);
}

static void print_files(const struct top_report *report, size_t rows, FILE *stream)
{
    char written[CELL_BYTES], live[CELL_BYTES], dead[CELL_BYTES], unsynced[CELL_BYTES];
    if (report->file_count == 0)
        return;
    fprintf(stream, "\n%-10s %12s %16s %10s %10s %10s\n", "DATA FILE", "WRITTEN/s", "KEYS", "LIVE",
            "DEAD", "UNSYNCED");
    for (size_t i = 0; i < report->file_count && i < rows; i++) {
        const struct top_file *file = &report->files[i];
        fprintf(stream, "%-10.10s %12s %16.0f %10s %10s %10s\n", safe(file->name),
                bytes_text(file->written_per_s, written), file->keys,
                bytes_text(file->live_bytes, live), bytes_text(file->dead_bytes, dead),
                time_text(file->unsynced_s, unsynced));
    }
}

void top_report_print(const struct top_report *report, size_t rows, FILE *stream)
{
    print_head(report, stream);
    print_state(report, stream);
    char mean[CELL_BYTES], p50[CELL_BYTES], p99[CELL_BYTES];
    fprintf(stream, "\n%-12s %12s %16s %10s %10s %10s\n", "OPERATION", "per second", "TOTAL",
            "MEAN", "50 %", "99 %");
    for (size_t i = 0; i < report->kind_count && i < rows; i++) {
        const struct top_kind *kind = &report->kinds[i];
        fprintf(stream, "%-12.12s %12.1f %16.0f %10s %10s %10s\n", safe(kind->name),
                kind->per_second, kind->total, time_text(kind->mean_s, mean),
                time_text(kind->p50_s, p50), time_text(kind->p99_s, p99));
    }
    print_files(report, rows, stream);
}

/* JSON ----------------------------------------------------------------------------------------- */

static void put_report_number(FILE *stream, const char *name, double value)
{
    fprintf(stream, ",\"%s\":%.10g", name, value);
}

static void put_name(FILE *stream, bool first, const char *label)
{
    if (!first)
        fputc(',', stream);
    escape_print_json(stream, kv_slice_from_string(label));
    fputc(':', stream);
}

static void put_kinds(const struct top_report *report, FILE *stream)
{
    fputs(",\"operations\":{", stream);
    for (size_t i = 0; i < report->kind_count; i++) {
        const struct top_kind *kind = &report->kinds[i];
        put_name(stream, i == 0, kind->name);
        fprintf(stream, "{\"per_second\":%.10g", kind->per_second);
        put_report_number(stream, "total", kind->total);
        put_report_number(stream, "mean_us", kind->mean_s * 1e6);
        put_report_number(stream, "p50_us", kind->p50_s * 1e6);
        put_report_number(stream, "p99_us", kind->p99_s * 1e6);
        fputc('}', stream);
    }
    fputc('}', stream);
}

static void put_file_rows(const struct top_report *report, FILE *stream)
{
    fputs(",\"files\":{", stream);
    for (size_t i = 0; i < report->file_count; i++) {
        const struct top_file *file = &report->files[i];
        put_name(stream, i == 0, file->name);
        fprintf(stream, "{\"written_bytes_per_second\":%.10g", file->written_per_s);
        put_report_number(stream, "keys", file->keys);
        put_report_number(stream, "live_bytes", file->live_bytes);
        put_report_number(stream, "dead_bytes", file->dead_bytes);
        put_report_number(stream, "unsynced_seconds", file->unsynced_s);
        fputc('}', stream);
    }
    fputc('}', stream);
}

void top_report_print_json(const struct top_report *report, FILE *stream)
{
    fprintf(stream, "{\"seconds\":%.10g", report->seconds);
    put_report_number(stream, "uptime_seconds", report->uptime_s);
    put_report_number(stream, "operations_per_second", report->operations_per_s);
    put_report_number(stream, "messages_per_second", report->messages_per_s);
    put_report_number(stream, "errors_per_second", report->errors_per_s);
    put_report_number(stream, "misses_per_second", report->misses_per_s);
    put_report_number(stream, "direct_reads_per_second", report->direct_reads_per_s);
    put_report_number(stream, "received_bytes_per_second", report->received_per_s);
    put_report_number(stream, "sent_bytes_per_second", report->sent_per_s);
    put_report_number(stream, "work_p50_us", report->work_p50_s * 1e6);
    put_report_number(stream, "work_p99_us", report->work_p99_s * 1e6);
    put_report_number(stream, "queue_wait_p99_us", report->queue_p99_s * 1e6);
    put_report_number(stream, "lock_wait_p99_us", report->lock_p99_s * 1e6);
    put_report_number(stream, "commit_p99_us", report->disk_p99_s * 1e6);
    put_report_number(stream, "sessions", report->sessions);
    put_report_number(stream, "sessions_max", report->sessions_max);
    put_report_number(stream, "resident_memory_bytes", report->memory_bytes);
    put_report_number(stream, "disk_free_bytes", report->disk_free_bytes);
    put_report_number(stream, "disk_bytes", report->disk_bytes);
    put_report_number(stream, "unsynced_bytes", report->unsynced_bytes);
    put_report_number(stream, "unsynced_seconds", report->oldest_s);
    put_report_number(stream, "replies_waiting_for_sync", report->replies_waiting);
    put_report_number(stream, "files_without_writes", report->bad_files);
    fputs(",\"sessions_by_uid\":{", stream);
    for (size_t i = 0; i < report->user_count; i++) {
        put_name(stream, i == 0, report->users[i].uid);
        fprintf(stream, "%.0f", report->users[i].sessions);
    }
    fputc('}', stream);
    put_kinds(report, stream);
    put_file_rows(report, stream);
    fputs("}\n", stream);
}
