#include "clientk/program/commands/batch_command.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clientk/program/commands/invocation.h"
#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/line_source.h"
#include "clientk/program/commands/transact_block.h"
#include "clientk/program/cli/progress.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/text/escape.h"

#define MAX_THREADS       256
#define MAX_FILES_AT_ONCE 64

const struct option_row batch_option_rows[] = {
    {"threads", 'n', OPTION_NUMBER, "N", "threads that share the lines of the file (default 1)",
     OPTION_FIELD(struct batch_options, threads), .min = 1, .max = MAX_THREADS},
    {"bail", 0, OPTION_FLAG, NULL, "stop at the first line that is wrong or fails",
     OPTION_FIELD(struct batch_options, bail)},
    {"quiet", 'q', OPTION_FLAG, NULL, "print no answers, only failures and the summary",
     OPTION_FIELD(struct batch_options, quiet)},
    {.name = NULL},
};
const struct batch_options batch_option_defaults = {0};

/* What all threads of a batch share. */
struct batch_job {
    struct cli_context *context;
    const struct batch_options *options;
    struct line_source **sources;
    size_t source_count, threads;
    atomic_size_t
        next_source; /* the first source that no thread has; with one source all threads share it */
    struct progress progress;
    atomic_bool stop;
    pthread_mutex_t
        order_lock; /* covers next_ticket, and what is written to the context's output */
    pthread_cond_t order_changed;
    uint64_t
        next_ticket; /* with one source: the ticket of the chunk whose answers are written next */
    _Atomic uint64_t done, not_found, failed;
    atomic_int worst_code;
};

/* One thread of a batch, which takes one chunk of lines after another. */
struct batch_thread {
    struct batch_job *batch;
    struct cli_context context; /* own output, shared connection */
    struct line_source *source;
    struct line_chunk chunk;
    struct line words[LINE_SOURCE_CHUNK];
    struct invocation prepared[LINE_SOURCE_CHUNK];
    struct key_command key_commands[KEY_COMMANDS_AT_ONCE];
    char place[256];
};
_Static_assert(LINE_SOURCE_CHUNK <= KEY_COMMANDS_AT_ONCE, "a chunk goes out in one call");

static void count_code(struct batch_job *batch, int code)
{
    if (code == EXIT_DONE)
        batch->done++;
    else if (code == EXIT_NOT_FOUND)
        batch->not_found++;
    else
        batch->failed++;
    if (code > EXIT_NOT_FOUND && batch->options->bail)
        atomic_store(&batch->stop, true);
    int worst = atomic_load(&batch->worst_code);
    while (code > worst && !atomic_compare_exchange_weak(&batch->worst_code, &worst, code))
        continue;
}

/* Makes the reports that follow name line `index` of the chunk. */
static void point_at_line(struct batch_thread *self, size_t index)
{
    snprintf(self->place, sizeof self->place, "%.200s:%" PRIu64, line_source_name(self->source),
             self->chunk.first_number + index);
    self->context.output.place = self->place;
}

static enum kv_status prepare_line(struct batch_thread *self, size_t index, struct kv_error *error)
{
    const struct source_line *line = &self->chunk.lines[index];
    struct line *words = &self->words[index];
    struct line_error wrong;
    self->prepared[index] = (struct invocation){0};
    if (line->too_long)
        return kv_error_set(error, KV_USAGE, "the line is too long");
    const char *text = self->chunk.bytes + line->offset;
    if (transact_block_begins(text, line->size)) {
        enum kv_status status = transact_block_parse(words, text, line->size, error);
        if (status != KV_OK)
            return status;
    } else if (!line_parse(words, text, line->size, &wrong)) {
        return kv_error_set(error, KV_USAGE, "column %zu: %s", wrong.column, wrong.message);
    }
    return invocation_prepare(&self->prepared[index], words->words, words->count, COMMAND_BATCH,
                              NULL, error);
}

/* Executes lines first..end-1, each a command for one key, in one call. */
static void execute_key_commands(struct batch_thread *self, size_t first, size_t end)
{
    size_t count = end - first;
    for (size_t i = 0; i < count; i++)
        self->key_commands[i] = self->prepared[first + i].key_command;
    if (key_command_execute(self->context.client, self->key_commands, count) == KV_NO_SERVER)
        atomic_store(&self->batch->stop, true);
    for (size_t i = 0; i < count; i++) {
        self->prepared[first + i].key_command = self->key_commands[i];
        point_at_line(self, first + i);
        count_code(self->batch, key_command_answer(&self->context.output, &self->key_commands[i]));
    }
}

/* Executes lines first..end-1, all of them valid. */
static void execute_lines(struct batch_thread *self, size_t first, size_t end)
{
    size_t most = key_commands_at_once(self->context.client);
    for (size_t i = first; i < end && !atomic_load(&self->batch->stop) && !interrupt_pending();) {
        size_t run_end = i;
        while (run_end < end && run_end - i < most && self->prepared[run_end].for_key)
            run_end++;
        if (run_end > i) {
            execute_key_commands(self, i, run_end);
            i = run_end;
            continue;
        }
        point_at_line(self, i);
        if (self->prepared[i].command)
            count_code(self->batch, invocation_execute(&self->context, &self->prepared[i]));
        i++;
    }
}

/* Executes the chunk. The lines before a wrong one are executed before its answer. */
static void execute_chunk(struct batch_thread *self)
{
    size_t first = 0, count = self->chunk.count;
    for (size_t i = 0; i < count; i++) {
        struct kv_error error = {0};
        enum kv_status status = prepare_line(self, i, &error);
        if (status == KV_OK)
            continue;
        execute_lines(self, first, i);
        first = i + 1;
        point_at_line(self, i);
        count_code(self->batch, output_failure(&self->context.output, NULL, status, error.text));
    }
    execute_lines(self, first, count);
    for (size_t i = 0; i < count; i++)
        invocation_free(&self->prepared[i]);
}

/* Each of several threads begins a chunk as if the last header that was printed were that of
 * answers. */
static void begin_chunk(struct batch_thread *self)
{
    if (self->batch->threads == 1)
        return;
    self->context.output.csv_started = true;
    self->context.output.csv_entries = false;
}

/* Writes answers and reports once those of all earlier chunks are written. */
static void write_in_order(struct batch_thread *self, struct kv_slice answers,
                           struct kv_slice reports)
{
    struct batch_job *batch = self->batch;
    pthread_mutex_lock(&batch->order_lock);
    while (batch->source_count == 1 && batch->next_ticket != self->chunk.ticket)
        pthread_cond_wait(&batch->order_changed, &batch->order_lock);
    if (!batch->options->quiet) {
        struct output *output = &self->batch->context->output, *own = &self->context.output;
        if (self->batch->threads > 1 && answers.size > 0 && output->csv_entries)
            output_begin(output);
        if (answers.size > 0)
            output->csv_entries = own->csv_entries || !own->csv_started;
        if (answers.size > 0)
            fwrite(answers.data, 1, answers.size, output->stream);
        if (fflush(output->stream) != 0 || ferror(output->stream))
            atomic_store(&self->batch->stop, true); /* nobody reads the answers */
    }
    if (reports.size > 0)
        fwrite(reports.data, 1, reports.size, stderr);
    batch->next_ticket++;
    pthread_cond_broadcast(&batch->order_changed);
    pthread_mutex_unlock(&batch->order_lock);
}

static void show_batch_progress(struct batch_thread *self)
{
    struct batch_job *batch = self->batch;
    uint64_t lines = batch->done + batch->not_found + batch->failed;
    uint64_t total_bytes = line_source_total_bytes(self->source), total = 0;
    uint64_t done_bytes = batch->progress.shown ? line_source_done_bytes(self->source) : 0;
    if (batch->source_count == 1 && total_bytes > 0 && done_bytes > 0)
        total = (uint64_t)((double)lines * (double)total_bytes / (double)done_bytes);
    progress_show(&batch->progress, lines, total);
}

/* Closes the stream. False: some of what was written to it is lost. NULL is harmless. */
static bool close_stream(FILE *stream)
{
    bool failed = stream && ferror(stream);
    return (!stream || fclose(stream) == 0) && !failed;
}

/* What such a stream holds; text is NULL if there was none. */
static struct kv_slice memory_of(const char *text, size_t size)
{
    return text ? kv_slice(text, size) : kv_slice("", 0);
}

/* Opens the stream to which a chunk's answers go: memory until all earlier chunks are written, if
 * other threads answer, too. With one thread answers are not kept, since a scan may answer with all
 * of the store. NULL: the stream cannot be opened. */
static FILE *open_answers(const struct batch_job *batch, char **answers, size_t *size)
{
    if (batch->options->quiet)
        return fopen("/dev/null", "we");
    return batch->threads > 1 ? open_memstream(answers, size) : batch->context->output.stream;
}

/* Executes the chunk and writes its answers. False: no memory for the answers, some of which are
 * missing. */
static bool run_chunk(struct batch_thread *self)
{
    char *answers = NULL, *reports = NULL;
    size_t answers_size = 0, reports_size = 0;
    struct output *output = &self->context.output;
    output->stream = open_answers(self->batch, &answers, &answers_size);
    output->reports = open_memstream(&reports, &reports_size);
    begin_chunk(self);
    bool complete = output->stream && output->reports;
    if (complete)
        execute_chunk(self);
    if (output->stream != self->batch->context->output.stream)
        complete = close_stream(output->stream) && complete;
    complete = close_stream(output->reports) && complete;
    write_in_order(self, memory_of(answers, answers_size), memory_of(reports, reports_size));
    if (!complete)
        fprintf(stderr, "clientk: batch: no memory for answers\n");
    free(answers);
    free(reports);
    return complete;
}

static void run_source(struct batch_thread *self)
{
    struct batch_job *batch = self->batch;
    size_t most = batch->options->bail ? 1 : LINE_SOURCE_CHUNK;
    while (!atomic_load(&batch->stop) && !interrupt_pending() &&
           line_source_take(self->source, most, &self->chunk)) {
        if (!run_chunk(self)) {
            count_code(batch, EXIT_REFUSED);
            atomic_store(&batch->stop, true);
        }
        show_batch_progress(self);
    }
}

static void *run_thread(void *argument)
{
    struct batch_thread *self = argument;
    struct batch_job *batch = self->batch;
    if (batch->source_count == 1) {
        self->source = batch->sources[0];
        run_source(self);
        return NULL;
    }
    size_t mine;
    while ((mine = batch->next_source++) < batch->source_count) {
        self->source = batch->sources[mine];
        run_source(self);
    }
    return NULL;
}

static struct batch_thread *thread_create(struct batch_job *batch)
{
    struct batch_thread *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->batch = batch;
    self->context = *batch->context;
    self->context.output.one_shot = false;
    self->context.output.csv_started = true;
    self->context.output.terminal = batch->context->output.terminal && isatty(STDERR_FILENO);
    return self;
}

static void thread_free(struct batch_thread *self)
{
    for (size_t i = 0; i < LINE_SOURCE_CHUNK; i++)
        line_free(&self->words[i]);
    line_chunk_free(&self->chunk);
    free(self);
}

/* Runs `count` threads, or as many as the system allows, until they end. */
static void run_threads(struct batch_job *batch, size_t count)
{
    struct batch_thread *threads[MAX_THREADS] = {0};
    pthread_t handles[MAX_THREADS] = {0};
    size_t started = 0;
    int failure = 0;
    for (; started < count; started++) {
        threads[started] = thread_create(batch);
        failure = threads[started]
                      ? pthread_create(&handles[started], NULL, run_thread, threads[started])
                      : ENOMEM;
        if (failure != 0)
            break;
    }
    if (started < count) {
        struct kv_error error;
        kv_error_set_no_thread(&error, failure, "started only %zu of %zu threads", started, count);
        fprintf(stderr, "clientk: batch: %s\n", error.text);
        if (threads[started])
            thread_free(threads[started]);
        if (started == 0)
            count_code(batch, EXIT_REFUSED);
    }
    interrupt_join(handles, started);
    for (size_t i = 0; i < started; i++)
        thread_free(threads[i]);
}

static int run_batch(struct cli_context *context, const struct batch_options *options,
                     struct line_source **sources, size_t source_count, size_t threads,
                     bool summary)
{
    struct batch_job batch = {.context = context,
                              .options = options,
                              .sources = sources,
                              .source_count = source_count,
                              .threads = threads};
    pthread_mutex_init(&batch.order_lock, NULL);
    pthread_cond_init(&batch.order_changed, NULL);
    uint64_t start_ns = clock_monotonic_ns();
    if (!options->quiet)
        output_begin(&context->output);
    progress_start(&batch.progress, "lines", context->output.terminal && !options->quiet);
    run_threads(&batch, threads);
    progress_end(&batch.progress);
    for (size_t i = 0; i < batch.source_count; i++) {
        const char *error = line_source_error(batch.sources[i]);
        if (!error)
            continue;
        fputs("clientk: ", stderr);
        escape_print_text(stderr, line_source_name(batch.sources[i]));
        fprintf(stderr, ": %s\n", error);
        count_code(&batch, EXIT_REFUSED);
    }
    if (summary) {
        double seconds = (double)(clock_monotonic_ns() - start_ns) / 1e9;
        uint64_t lines = batch.done + batch.not_found + batch.failed;
        fprintf(stderr,
                "clientk: %" PRIu64 " commands in %.3f s (%.0f/s): %" PRIu64 " done, %" PRIu64
                " not found or condition not met, %" PRIu64 " failed%s\n",
                lines, seconds, seconds > 0 ? (double)lines / seconds : 0.0, (uint64_t)batch.done,
                (uint64_t)batch.not_found, (uint64_t)batch.failed,
                batch.stop            ? "; stopped before the end"
                : interrupt_pending() ? "; interrupted"
                                      : "");
    }
    pthread_cond_destroy(&batch.order_changed);
    pthread_mutex_destroy(&batch.order_lock);
    return batch.worst_code;
}

/* Opens all files before the first line is executed. */
static int open_sources(struct cli_context *context, const struct word *operands, size_t count,
                        struct line_source **sources)
{
    for (size_t i = 0; i < count; i++) {
        struct kv_error error = {0};
        if (line_source_open(operands[i].data, &sources[i], &error) != KV_OK)
            return output_failure(&context->output, "batch", KV_USAGE, error.text);
        line_source_join_blocks(sources[i]);
    }
    return EXIT_DONE;
}

int batch_run(struct cli_context *context, const void *options_given, const struct word *operands,
              size_t count)
{
    const struct batch_options *options = options_given;
    size_t threads = options->threads ? (size_t)options->threads : 1;
    if (count > 1 && options->threads > 0)
        return output_failure(
            &context->output, "batch", KV_USAGE,
            "each of several files has its own thread: leave out -n, or give one file");
    if (count > 1)
        threads = count < MAX_FILES_AT_ONCE ? count : MAX_FILES_AT_ONCE;

    struct line_source **sources = calloc(count, sizeof *sources);
    if (!sources)
        return output_failure(&context->output, "batch", KV_NO_MEMORY, NULL);
    int code = open_sources(context, operands, count, sources);
    context->patient = true;
    if (code == EXIT_DONE)
        code = cli_connect_for(context, "batch");
    if (code == EXIT_DONE)
        code = run_batch(context, options, sources, count, threads, true);
    for (size_t i = 0; i < count; i++)
        line_source_close(sources[i]);
    free(sources);
    return code;
}

int batch_run_stdin(struct cli_context *context)
{
    static char standard_input[] = "-";
    const struct word operand = {standard_input, 1, false};
    struct line_source *source = NULL;
    int code = open_sources(context, &operand, 1, &source);
    context->patient = true;
    if (code == EXIT_DONE)
        code = cli_connect_for(context, NULL);
    if (code == EXIT_DONE)
        code = run_batch(context, &batch_option_defaults, &source, 1, 1, false);
    line_source_close(source);
    return code;
}
