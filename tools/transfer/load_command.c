#include "tools/transfer/load_command.h"

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/transfer/dump_format.h"
#include "tools/transfer/refused_lines.h"
#include "clientk/program/commands/invocation.h"
#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/line_source.h"
#include "clientk/program/cli/progress.h"
#include "common/report/error.h"
#include "common/text/escape.h"

const struct option_row load_option_rows[] = {
    {"from", 0, OPTION_NUMBER, "LINE",
     "start at this line of the file, where an earlier load stopped",
     OPTION_FIELD(struct load_options, from), .min = 1, .max = UINT64_MAX},
    {"if-absent", 0, OPTION_FLAG, NULL, "skip keys that exist",
     OPTION_FIELD(struct load_options, if_absent)},
    {"force", 0, OPTION_FLAG, NULL, "load a dump even if it is damaged or cut off",
     OPTION_FIELD(struct load_options, force)},
    {.name = NULL},
};
const struct load_options load_option_defaults = {0};

struct load {
    struct cli_context *context;
    const struct load_options *options;
    struct line_source *source;
    struct dump_check check;
    struct progress progress;
    struct clientk_pipeline *pipeline;
    uint64_t loaded, skipped, failed;
    /* The first line that could not be loaded, because the server did not answer or took no more;
     * 0: none. No line after it is sent. */
    uint64_t unfinished;
    enum kv_status stopped_by;
    struct refused_lines refused;
    uint64_t sent; /* the last line given to the pipeline */
    uint64_t next; /* the first line not taken yet */
    int worst_code;
};

static void worsen(struct load *load, int code)
{
    if (code > load->worst_code)
        load->worst_code = code;
}

/* Leaves this line and those after it to a later load. */
static void stop_at(struct load *load, uint64_t line, enum kv_status status)
{
    if (load->unfinished == 0)
        load->stopped_by = status;
    if (load->unfinished == 0 || line < load->unfinished)
        load->unfinished = line;
    worsen(load, transfer_exit_code(status));
}

static void report_load_failure(struct load *load, uint64_t line, enum kv_status status,
                                const char *sentence)
{
    load->failed++;
    worsen(load, transfer_exit_code(status));
    progress_end(&load->progress);
    fputs("clientk: load: ", stderr);
    escape_print_text(stderr, line_source_name(load->source));
    fprintf(stderr, ":%" PRIu64 ": %s\n", line, sentence ? sentence : kv_status_text(status));
}

/* Reports that the first `count` refused lines failed alone. */
static void tell_refused(struct load *load, size_t count)
{
    for (size_t i = 0; i < count; i++)
        report_load_failure(load, load->refused.lines[i].line, load->refused.lines[i].status, NULL);
    refused_lines_drop(&load->refused, count);
}

/* Leaves all refused lines to a later load. */
static void leave_refused(struct load *load)
{
    for (size_t i = 0; i < load->refused.count; i++)
        stop_at(load, load->refused.lines[i].line, load->refused.lines[i].status);
    refused_lines_drop(&load->refused, load->refused.count);
}

static void note_refusal(struct load *load, uint64_t line, enum kv_status status)
{
    const struct refused_line refused = {.line = line, .last_sent = load->sent, .status = status};
    if (load->refused.count == REFUSED_LINES)
        tell_refused(load, REFUSED_LINES / 2);
    if (refused_lines_add(&load->refused, &refused))
        leave_refused(load);
}

/* The completion of one record, whose tag is its line number. */
static void complete_loaded_record(void *context, void *tag, const struct clientk_result *result)
{
    struct load *load = context;
    uint64_t line = (uint64_t)(uintptr_t)tag;
    bool is_loaded = result->status == KV_OK;
    bool is_there = result->status == KV_EXISTS && load->options->if_absent;
    load->loaded += is_loaded;
    load->skipped += is_there;
    if (is_loaded || is_there)
        tell_refused(load, refused_lines_pass(&load->refused, line));
    else if (status_lacks_room(result->status))
        note_refusal(load, line, result->status);
    else if (status_ends_transfer(result->status))
        stop_at(load, line, result->status);
    else
        report_load_failure(load, line, result->status, NULL);
}

/* Parses a line of the file: KV_OK with its operation (an empty line has no command), or why
 * not. */
static enum kv_status prepare_record(struct line *words, const char *text, size_t size,
                                     struct invocation *prepared, struct kv_error *error)
{
    struct line_error wrong;
    *prepared = (struct invocation){0};
    if (!line_parse(words, text, size, &wrong))
        return kv_error_set(error, KV_USAGE, "column %zu: %s", wrong.column, wrong.message);
    enum kv_status status =
        invocation_prepare(prepared, words->words, words->count, COMMAND_BATCH, NULL, error);
    if (status != KV_OK || !prepared->command)
        return status;
    if (!prepared->command->key_kind || prepared->command->key_kind->opcode != CLIENTK_PUT)
        return kv_error_set(error, KV_USAGE,
                            "load takes PUT lines only (clientk batch executes any command)");
    return KV_OK;
}

/* Sends one record. */
static void load_record(struct load *load, struct line *words, const char *text, size_t size,
                        uint64_t number)
{
    struct invocation prepared;
    struct kv_error error = {0};
    enum kv_status status = prepare_record(words, text, size, &prepared, &error);
    if (status != KV_OK) {
        report_load_failure(load, number, status, error.text);
    } else if (prepared.command) {
        struct clientk_operation *operation = &prepared.key_command.operation;
        operation->write.if_absent |= load->options->if_absent;
        load->sent = number;
        status = clientk_pipeline_submit(load->pipeline, operation, (void *)(uintptr_t)number);
        if (status != KV_OK && status_ends_transfer(status))
            stop_at(load, number, status);
        else if (status != KV_OK)
            report_load_failure(load, number, status, cli_sentence(status));
    }
    invocation_free(&prepared);
}

/* Loads one line of the file, which may not be a record. */
static void load_line(struct load *load, struct line *words, const struct line_chunk *chunk,
                      size_t index)
{
    const struct source_line *line = &chunk->lines[index];
    const char *text = chunk->bytes + line->offset;
    uint64_t number = chunk->first_number + index;
    bool is_record = !line->too_long && !dump_check_line(&load->check, text, line->size);
    if (number < load->options->from)
        return;
    if (line->too_long)
        report_load_failure(load, number, KV_USAGE, "the line is too long");
    else if (is_record)
        load_record(load, words, text, line->size, number);
}

static void load_lines(struct load *load)
{
    struct line words = {0};
    struct line_chunk chunk = {0};
    load->next = 1;
    while (load->unfinished == 0 && !interrupt_pending() &&
           line_source_take(load->source, LINE_SOURCE_CHUNK, &chunk)) {
        size_t taken = 0;
        while (taken < chunk.count && load->unfinished == 0 && !interrupt_pending())
            load_line(load, &words, &chunk, taken++);
        load->next = chunk.first_number + taken;
        uint64_t done_bytes = line_source_done_bytes(load->source);
        uint64_t total_bytes = line_source_total_bytes(load->source);
        progress_show(&load->progress, load->loaded,
                      done_bytes ? load->loaded * total_bytes / done_bytes : 0);
    }
    clientk_pipeline_flush(load->pipeline); /* complete_loaded_record gets the failures */
    if (interrupt_pending() && load->unfinished == 0)
        stop_at(load, load->next < load->options->from ? load->options->from : load->next,
                KV_TIMEOUT);
    if (load->unfinished > 0)
        leave_refused(load);
    else
        tell_refused(load, load->refused.count);
    line_chunk_free(&chunk);
    line_free(&words);
}

/* Returns false for a pipe, which can be read only once. */
static bool can_be_read_twice(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* Checks the whole file before anything is loaded: it must be a sound dump. A pipe is checked at
 * its end. */
static enum kv_status check_dump_file(const char *path, struct kv_error *error)
{
    struct line_source *source = NULL;
    struct line_chunk chunk = {0};
    struct dump_check check = {0};
    char reason[160];
    enum kv_status status = line_source_open(path, &source, error);
    if (status != KV_OK)
        return kv_error_set(error, KV_USAGE, "%s", error->text);
    while (line_source_take(source, LINE_SOURCE_CHUNK, &chunk))
        for (size_t i = 0; i < chunk.count; i++)
            dump_check_line(&check, chunk.bytes + chunk.lines[i].offset, chunk.lines[i].size);
    if (line_source_error(source))
        status = kv_error_set(error, KV_CORRUPT,
                              "%.200s: %s; nothing was loaded (--force loads what is there)", path,
                              line_source_error(source));
    else if (dump_check_verdict(&check, reason))
        status = kv_error_set(error, KV_CORRUPT,
                              "%.200s: %s; nothing was loaded (--force loads it)", path, reason);
    line_source_close(source);
    line_chunk_free(&chunk);
    return status;
}

/* Prints the word as a shell reads it. */
static void print_shell_word(const char *text)
{
    if (*text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "-_./:@%+=,") == strlen(text)) {
        fputs(text, stderr);
        return;
    }
    fputc('\'', stderr);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stderr);
        else
            fputc(*text, stderr);
    fputc('\'', stderr);
}

static const char *reason_to_stop(const struct load *load)
{
    if (interrupt_pending())
        return "interrupted";
    switch (load->stopped_by) {
    case KV_TIMEOUT:
    case KV_DEADLINE:
        return "the server did not answer in time (--timeout)";
    case KV_NO_SERVER:
    case KV_OUTCOME_UNKNOWN:
        return "the server has ended";
    default:
        return kv_status_text(load->stopped_by);
    }
}

/* Prints the command that continues where this load stopped. */
static void tell_rest(const struct load *load, const char *path)
{
    const struct load_options *options = load->options;
    fputs("clientk: load: ", stderr);
    escape_print_text(stderr, line_source_name(load->source));
    fprintf(stderr,
            ": stopped: %s; all before line %" PRIu64
            " is done, the rest is not, or in part. To go on: "
            "clientk -m %s load --from %" PRIu64 "%s%s%s ",
            reason_to_stop(load), load->unfinished, load->context->global.queue, load->unfinished,
            options->if_absent ? " --if-absent" : "", options->force ? " --force" : "",
            path[0] == '-' && path[1] ? " --" : "");
    print_shell_word(path);
    fputc('\n', stderr);
}

static int finish_load(struct load *load, const char *path)
{
    char reason[160];
    const char *read_error = line_source_error(load->source);
    if (read_error) {
        report_load_failure(load, load->next, KV_IO, read_error);
    } else if (load->unfinished == 0 && load->options->from > load->next) {
        char sentence[96];
        snprintf(sentence, sizeof sentence,
                 "--from %" PRIu64 ": the file has only %" PRIu64 " lines", load->options->from,
                 load->next - 1);
        worsen(load, output_failure(&load->context->output, "load", KV_USAGE, sentence));
    } else if (load->unfinished == 0 && dump_check_verdict(&load->check, reason)) {
        fputs("clientk: load: ", stderr);
        escape_print_text(stderr, line_source_name(load->source));
        fprintf(stderr, ": %s\n", reason);
        if (!load->options->force)
            worsen(load, EXIT_REFUSED);
    }
    fprintf(stderr, "clientk: %" PRIu64 " entries loaded", load->loaded);
    if (load->skipped > 0)
        fprintf(stderr, ", %" PRIu64 " skipped because their keys exist", load->skipped);
    fprintf(stderr, ", %" PRIu64 " failed\n", load->failed);
    if (load->unfinished > 0)
        tell_rest(load, path);
    return load->worst_code;
}

int load_run(struct cli_context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    (void)count;
    struct load load = {.context = context, .options = options_given, .check = {0}};
    struct kv_error error = {0};
    const char *path = operands[0].data;
    bool standard_input = !operands[0].literal && word_is(&operands[0], "-");
    enum kv_status status = KV_OK;
    if (!standard_input && !load.options->force && can_be_read_twice(path))
        status = check_dump_file(path, &error);
    if (status == KV_OK && line_source_open(path, &load.source, &error) != KV_OK)
        status = kv_error_set(&error, KV_USAGE, "%s", error.text);
    if (status != KV_OK)
        return output_failure(&context->output, "load", status, error.text);

    context->patient = true;
    status = cli_connect(context, &error);
    if (status == KV_OK)
        status = clientk_pipeline_open(context->client, 0, 0, complete_loaded_record, &load,
                                       &load.pipeline, &error);
    int code;
    if (status == KV_OK) {
        progress_start(&load.progress, "entries loaded", false);
        load_lines(&load);
        progress_end(&load.progress);
        clientk_pipeline_close(load.pipeline);
        code = finish_load(&load, path);
    } else {
        code = output_failure(&context->output, "load", status, error.text);
    }
    line_source_close(load.source);
    return code;
}
