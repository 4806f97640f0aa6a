#include "clientk/program/dump.h"

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/dump_format.h"
#include "clientk/program/execute.h"
#include "clientk/program/interrupt.h"
#include "clientk/program/line_source.h"
#include "clientk/program/progress.h"
#include "common/escape.h"

const struct option_row load_option_rows[] = {
    {.name = "if-absent",
     .kind = OPTION_FLAG,
     .help = "leave keys alone that are there",
     .offset = offsetof(struct load_options, if_absent)},
    {.name = "force",
     .kind = OPTION_FLAG,
     .help = "load also a damaged or cut-off dump",
     .offset = offsetof(struct load_options, force)},
    {.name = NULL},
};
const struct load_options load_option_defaults = {0};

struct load {
    struct context *context;
    const struct load_options *options;
    struct line_source *source;
    struct dump_check check;
    struct progress progress;
    struct clientk_pipeline *pipeline;
    uint64_t loaded, skipped, failed;
    int worst_code;
};

static void note_failure(struct load *load, uint64_t line, enum kv_status status,
                         const char *sentence)
{
    int code = exit_code_of(status);
    load->failed++;
    if (code > load->worst_code)
        load->worst_code = code;
    progress_end(&load->progress);
    fprintf(stderr, "clientk: load: %s:%" PRIu64 ": %s\n", line_source_name(load->source), line,
            sentence ? sentence : kv_status_text(status));
}

/* The pipeline's word on one record; its tag is its line number. */
static void complete(void *context, void *tag, const struct clientk_result *result)
{
    struct load *load = context;
    if (result->status == KV_OK)
        load->loaded++;
    else if (result->status == KV_EXISTS && load->options->if_absent)
        load->skipped++;
    else
        note_failure(load, (uint64_t)(uintptr_t)tag, result->status, NULL);
}

/* Parses a line of the file: KV_OK with its operation (an empty line has no command), or why not. */
static enum kv_status prepare_record(struct line *words, const char *text, size_t size,
                                     struct prepared *prepared, struct kv_error *error)
{
    struct line_error wrong;
    *prepared = (struct prepared){0};
    if (!line_parse(words, text, size, &wrong))
        return kv_error_set(error, KV_USAGE, "column %zu: %s", wrong.column, wrong.message);
    enum kv_status status =
        prepare(prepared, words->words, words->count, COMMAND_BATCH, NULL, error);
    if (status != KV_OK || !prepared->command)
        return status;
    if (!prepared->command->key_kind || prepared->command->key_kind->opcode != CLIENTK_PUT)
        return kv_error_set(error, KV_USAGE,
                            "load takes PUT lines only (clientk batch executes any command)");
    return KV_OK;
}

/* Sends one record; false if nothing more can be sent. */
static bool load_line(struct load *load, struct line *words, const char *text, size_t size,
                      uint64_t number)
{
    struct prepared prepared;
    struct kv_error error = {0};
    bool go_on = true;
    enum kv_status status = prepare_record(words, text, size, &prepared, &error);
    if (status != KV_OK) {
        note_failure(load, number, status, error.text);
    } else if (prepared.command) {
        prepared.key_command.operation.put.if_absent |= load->options->if_absent;
        status = clientk_pipeline_submit(load->pipeline, &prepared.key_command.operation,
                                         (void *)(uintptr_t)number);
        if (status != KV_OK)
            note_failure(load, number, status, context_sentence(status));
        go_on = exit_code_of(status) != EXIT_NO_SERVER;
    }
    prepared_free(&prepared);
    return go_on;
}

static void load_lines(struct load *load)
{
    struct line words = {0};
    struct line_chunk chunk = {0};
    bool go_on = true;
    while (go_on && !interrupt_pending() &&
           line_source_take(load->source, LINE_SOURCE_CHUNK, &chunk)) {
        for (size_t i = 0; i < chunk.count && go_on; i++) {
            const struct source_line *line = &chunk.lines[i];
            const char *text = chunk.bytes + line->offset;
            uint64_t number = chunk.first_number + i;
            if (line->too_long)
                note_failure(load, number, KV_USAGE, "the line is too long");
            else if (!dump_check_line(&load->check, text, line->size))
                go_on = load_line(load, &words, text, line->size, number);
        }
        uint64_t done_bytes = line_source_done_bytes(load->source);
        uint64_t total_bytes = line_source_total_bytes(load->source);
        progress_show(&load->progress, load->loaded,
                      done_bytes ? load->loaded * total_bytes / done_bytes : 0);
    }
    if (clientk_pipeline_flush(load->pipeline) != KV_OK && load->worst_code == EXIT_DONE)
        load->worst_code = EXIT_NO_SERVER;
    line_chunk_free(&chunk);
    line_free(&words);
}

/* Reads the whole file once before anything is loaded: is it a sound dump? A pipe can only be judged
 * afterwards. */
static enum kv_status check_file(const char *path, struct kv_error *error)
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
    if (line_source_total_bytes(source) > 0 && dump_check_verdict(&check, reason))
        status = kv_error_set(error, KV_CORRUPT,
                              "%.200s: %s; nothing was loaded (--force loads it)", path, reason);
    line_source_close(source);
    line_chunk_free(&chunk);
    return status;
}

static int finish(struct load *load)
{
    char reason[160];
    const char *read_error = line_source_error(load->source);
    if (read_error)
        note_failure(load, load->check.entries, KV_IO, read_error);
    else if (!interrupt_pending() && dump_check_verdict(&load->check, reason)) {
        fprintf(stderr, "clientk: load: %s: %s\n", line_source_name(load->source), reason);
        if (load->worst_code < EXIT_REFUSED && !load->options->force)
            load->worst_code = EXIT_REFUSED;
    }
    fprintf(stderr, "clientk: %" PRIu64 " entries loaded", load->loaded);
    if (load->skipped > 0)
        fprintf(stderr, ", %" PRIu64 " left alone because they were there", load->skipped);
    fprintf(stderr, ", %" PRIu64 " failed%s\n", load->failed,
            interrupt_pending() ? "; interrupted" : "");
    return load->worst_code;
}

int load_run(struct context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    (void)count;
    struct load load = {.context = context, .options = options_given, .check = {0}};
    struct kv_error error = {0};
    const char *path = operands[0].data;
    bool standard_input = !operands[0].literal && word_is(&operands[0], "-");
    enum kv_status status = KV_OK;
    if (!standard_input && !load.options->force)
        status = check_file(path, &error);
    if (status == KV_OK)
        status = line_source_open(path, &load.source, &error);
    if (status != KV_OK)
        return output_failure(&context->output, "load", status, error.text);

    context->patient = true;
    status = context_connect(context, &error);
    if (status == KV_OK)
        status =
            clientk_pipeline_open(context->client, 0, 0, complete, &load, &load.pipeline, &error);
    int code;
    if (status == KV_OK) {
        progress_start(&load.progress, "entries loaded", false);
        load_lines(&load);
        progress_end(&load.progress);
        clientk_pipeline_close(load.pipeline);
        code = finish(&load);
    } else {
        code = output_failure(&context->output, "load", status, error.text);
    }
    line_source_close(load.source);
    return code;
}
