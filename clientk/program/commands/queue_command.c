#include "clientk/program/commands/queue_command.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/queue_lengths.h"
#include "common/report/error.h"
#include "common/text/escape.h"
#include "common/text/parse.h"
#include "common/time/clock.h"
#include "mqkv/clientk_queue.h"

#define NAME          "queue"
#define PAYLOAD_BYTES (64u << 20)
#define MOST_TAKEN    64u
#define RECEIPTS_MOST 64u

#define QUEUE_FIELD(member) OPTION_FIELD(struct queue_options, member)

const struct option_row queue_option_rows[] = {
    {"priority", 0, OPTION_NUMBER, "0..9", "put: which job comes first; 9 does (default 0)",
     QUEUE_FIELD(priority), .max = CLIENTK_MAX_JOB_PRIORITY},
    {"delay", 0, OPTION_DURATION_MS, "DURATION",
     "put, fail, release: nobody gets the job before: " DURATION_EXAMPLES, QUEUE_FIELD(delay_ms),
     .max = CLIENTK_MAX_JOB_DELAY_MS},
    {"attempts", 0, OPTION_NUMBER, "N", "put: how often it is given to a worker (default 5)",
     QUEUE_FIELD(attempts), .min = 1, .max = UINT32_MAX},
    {"backoff", 0, OPTION_DURATION_MS, "DURATION",
     "put: the delay after its first failure, which doubles (default 1s)", QUEUE_FIELD(backoff_ms),
     .min = 1, .max = UINT32_MAX},
    {"lease", 0, OPTION_DURATION_MS, "DURATION",
     "take, extend: how long nobody else gets the job (default 30s)", QUEUE_FIELD(lease_ms),
     .min = 1, .max = UINT32_MAX},
    {"count", 'c', OPTION_NUMBER, "N",
     "take: up to N jobs, at most 64 (default 1); peek, list, dead: N jobs at most (default 10)",
     QUEUE_FIELD(count), .min = 1, .max = UINT32_MAX},
    {"wait", 0, OPTION_FLAG, NULL, "take: wait for a job", QUEUE_FIELD(wait)},
    {"wait-for", 0, OPTION_DURATION_MS, "DURATION", "take: wait so long for a job at most",
     QUEUE_FIELD(wait_ms), .min = 1, .max = INT_MAX},
    {"reason", 0, OPTION_TEXT, "TEXT", "fail: why", QUEUE_FIELD(reason)},
    {"bury", 0, OPTION_FLAG, NULL, "fail: make it a dead letter now", QUEUE_FIELD(bury)},
    {"revive", 0, OPTION_FLAG, NULL, "dead: give dead letters their attempts anew",
     QUEUE_FIELD(revive)},
    {"drop", 0, OPTION_FLAG, NULL, "dead, list: delete the jobs", QUEUE_FIELD(drop)},
    {.name = NULL},
};
const struct queue_options queue_option_defaults = {.delay_ms = UINT64_MAX};

/* One run of the command. */
struct queue_run {
    struct cli_context *context;
    const struct queue_options *options;
    struct clientk_queue *queue;
    const struct word *operands; /* behind the queue's name */
    size_t count;
    size_t listed;
    bool names_states; /* the jobs of a list are of several states */
};

static int queue_fail_with(const struct queue_run *run, enum kv_status status)
{
    return output_failure(&run->context->output, NAME, status, cli_sentence(status));
}

static int queue_misuse(struct cli_context *context, const char *sentence)
{
    return output_failure(&context->output, NAME, KV_USAGE, sentence);
}

static int queue_say(const struct queue_run *run, const char *text, uint64_t number)
{
    return output_answer(&run->context->output, &(struct answer){.command = NAME,
                                                                 .text = text,
                                                                 .has_number = number != 0,
                                                                 .number = (int64_t)number});
}

/* Jobs ----------------------------------------------------------------------------------------- */

static const char *job_state_name(enum clientk_job_state state)
{
    static const char names[][8] = {"", "ready", "leased", "later", "dead"};
    return names[state];
}

static void print_job_json(FILE *stream, const struct clientk_job *job, const char *state,
                           const char *receipt)
{
    fprintf(stream, "{\"state\":\"%s\",\"id\":\"%016" PRIx64 "\",", state, job->id);
    if (receipt)
        fprintf(stream, "\"receipt\":\"%s\",", receipt);
    output_json_bytes(stream, "payload", kv_slice(job->payload.data, job->payload.size));
    fputc(',', stream);
    output_json_bytes(stream, "reason", kv_slice(job->reason.data, job->reason.size));
    fprintf(stream,
            ",\"priority\":%" PRIu32 ",\"attempts\":%" PRIu32 ",\"max_attempts\":%" PRIu32
            ",\"put_ms\":%" PRIu64 ",\"until_ms\":%" PRIu64 "}\n",
            job->priority, job->attempts, job->max_attempts, job->put_ms, job->until_ms);
}

static void print_job_csv(FILE *stream, const struct clientk_job *job, const char *state,
                          const char *receipt)
{
    fprintf(stream, "%s,%016" PRIx64 ",%s,", state, job->id, receipt ? receipt : "");
    output_csv_bytes(stream, kv_slice(job->payload.data, job->payload.size));
    fputc(',', stream);
    output_csv_bytes(stream, kv_slice(job->reason.data, job->reason.size));
    fprintf(stream, ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 "\n", job->priority,
            job->attempts, job->max_attempts, job->put_ms, job->until_ms);
}

/* Prints a job in one line: its receipt, or its id, and its payload; in the raw format the bytes of
 * the payload alone, and the receipt on stderr. */
static void print_job(const struct queue_run *run, const struct clientk_job *job,
                      enum clientk_job_state state, const char *receipt)
{
    FILE *stream = run->context->output.stream;
    struct kv_slice payload = kv_slice(job->payload.data, job->payload.size);
    switch (run->context->output.format) {
    case OUTPUT_TEXT:
        if (run->names_states)
            fprintf(stream, "%s ", job_state_name(state));
        if (receipt)
            fprintf(stream, "%s ", receipt);
        else
            fprintf(stream, "%016" PRIx64 " %" PRIu32 "/%" PRIu32 " ", job->id, job->attempts,
                    job->max_attempts);
        if (receipt)
            escape_print_word(stream, payload);
        else
            output_print_value(&run->context->output, payload);
        if (!receipt && job->reason.size > 0) {
            fputs(" failed: ", stream);
            escape_print(stream, kv_slice(job->reason.data, job->reason.size));
        }
        fputc('\n', stream);
        break;
    case OUTPUT_RAW:
        if (payload.size > 0)
            fwrite(payload.data, 1, payload.size, stream);
        if (receipt)
            fprintf(stderr, "%s\n", receipt);
        break;
    case OUTPUT_JSON:
        print_job_json(stream, job, job_state_name(state), receipt);
        break;
    case OUTPUT_CSV:
        print_job_csv(stream, job, job_state_name(state), receipt);
        break;
    }
}

static void print_job_header(const struct queue_run *run)
{
    if (run->context->output.format == OUTPUT_CSV)
        fputs("state,id,receipt,payload,reason,priority,attempts,max_attempts,put_ms,until_ms\n",
              run->context->output.stream);
    run->context->output.csv_started = false;
}

/* put ----------------------------------------------------------------------------------------- */

/* Reads standard input to its end; the caller frees *bytes. */
static enum kv_status read_payload(char **bytes, size_t *size, struct kv_error *error)
{
    size_t capacity = 64u << 10;
    *size = 0;
    *bytes = malloc(capacity);
    for (;;) {
        char *larger = *bytes;
        if (larger && *size == capacity)
            larger = realloc(larger, capacity *= 2);
        if (!larger)
            return kv_error_set(error, KV_NO_MEMORY, "no memory for the payload");
        *bytes = larger;
        ssize_t got = read(STDIN_FILENO, *bytes + *size, capacity - *size);
        if (got < 0)
            return kv_error_set_errno(error, "reading the payload from standard input");
        if (got == 0)
            return KV_OK;
        *size += (size_t)got;
        if (*size > PAYLOAD_BYTES)
            return kv_error_set(error, KV_VALUE_TOO_BIG,
                                "standard input holds more than the 64 MiB a payload can have");
    }
}

/* Joins the words with one space between them; the caller frees *bytes. */
static enum kv_status join_payload(const struct queue_run *run, char **bytes, size_t *size,
                                   struct kv_error *error)
{
    size_t room = 1;
    for (size_t i = 0; i < run->count; i++)
        room += run->operands[i].size + 1;
    *size = 0;
    *bytes = malloc(room);
    if (!*bytes)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for the payload");
    for (size_t i = 0; i < run->count; i++) {
        if (i > 0)
            (*bytes)[(*size)++] = ' ';
        memcpy(*bytes + *size, run->operands[i].data, run->operands[i].size);
        *size += run->operands[i].size;
    }
    return KV_OK;
}

static int queue_put(struct queue_run *run)
{
    struct kv_error error = {0};
    const struct queue_options *options = run->options;
    const struct clientk_put_job_options put = {
        .priority = options->priority,
        .max_attempts = options->attempts,
        .delay_ms = options->delay_ms == UINT64_MAX ? 0 : options->delay_ms,
        .backoff_ms = options->backoff_ms};
    char *bytes = NULL;
    size_t size = 0;
    bool from_stdin = run->context->output.one_shot && run->count == 1 &&
                      !run->operands[0].literal && word_is(&run->operands[0], "-");
    enum kv_status status =
        from_stdin ? read_payload(&bytes, &size, &error) : join_payload(run, &bytes, &size, &error);
    uint64_t id = 0;
    if (status == KV_OK) {
        struct kv_slice payload = kv_slice(bytes, size);
        status = clientk_queue_put(run->queue, &payload, 1, &put, &id, NULL);
        kv_error_set(&error, status, "%s", status == KV_OK ? "" : cli_sentence(status));
    }
    free(bytes);
    if (status != KV_OK)
        return output_failure(&run->context->output, NAME, status, error.text);
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, id);
    return queue_say(run, text, 0);
}

/* take ----------------------------------------------------------------------------------------- */

static bool queue_waits(const struct queue_options *options)
{
    return options->wait || options->wait_ms > 0;
}

/* Takes jobs, and waits for them if the options say so. A claim whose answer was lost with the
 * daemon is perhaps one whose lease ends without a worker: who waits goes on. */
static enum kv_status take_jobs(const struct queue_run *run, size_t wanted,
                                struct clientk_job *jobs, size_t *taken)
{
    const uint64_t begin_ms = clock_monotonic_coarse_ms(), wait_ms = run->options->wait_ms;
    for (;;) {
        uint64_t waited_ms = clock_monotonic_coarse_ms() - begin_ms;
        int timeout_ms = wait_ms > waited_ms                  ? (int)(wait_ms - waited_ms)
                         : run->options->wait && wait_ms == 0 ? -1
                                                              : 0;
        enum kv_status status = clientk_queue_take(run->queue, wanted, timeout_ms, jobs, taken);
        if (status != KV_OUTCOME_UNKNOWN || timeout_ms == 0 || interrupt_pending())
            return status;
    }
}

static int queue_take(struct queue_run *run)
{
    struct clientk_job jobs[MOST_TAKEN] = {{.id = 0}};
    size_t wanted = run->options->count ? run->options->count : 1, taken = 0;
    if (wanted > MOST_TAKEN)
        return queue_misuse(run->context, "at most 64 jobs are taken at once");
    enum kv_status status = take_jobs(run, wanted, jobs, &taken);
    if (status == KV_OK)
        print_job_header(run);
    for (size_t i = 0; i < taken; i++) {
        char receipt[CLIENTK_RECEIPT_BYTES];
        clientk_queue_receipt(&jobs[i], receipt);
        print_job(run, &jobs[i], CLIENTK_JOB_LEASED, receipt);
    }
    /* What nobody has read is given back. */
    bool unread = fflush(run->context->output.stream) != 0 || ferror(run->context->output.stream);
    for (size_t i = 0; i < taken; i++) {
        if (unread)
            clientk_queue_release(run->queue, &jobs[i], 0);
        clientk_job_free(&jobs[i]);
    }
    return status == KV_OK ? EXIT_DONE : queue_fail_with(run, status);
}

/* Settling ------------------------------------------------------------------------------------- */

static int queue_ack(struct queue_run *run)
{
    struct clientk_job jobs[RECEIPTS_MOST] = {{.id = 0}};
    if (run->count > RECEIPTS_MOST)
        return queue_misuse(run->context, "at most 64 jobs are acknowledged at once");
    enum kv_status status = KV_OK;
    for (size_t i = 0; i < run->count && status == KV_OK; i++)
        status = clientk_queue_read_receipt(word_slice(&run->operands[i]), &jobs[i]);
    if (status == KV_OK)
        status = clientk_queue_ack(run->queue, jobs, run->count);
    return status == KV_OK ? queue_say(run, NULL, 0) : queue_fail_with(run, status);
}

static int queue_fail(struct queue_run *run)
{
    const struct queue_options *options = run->options;
    struct clientk_job job = {.id = 0};
    struct kv_slice reason = kv_slice_from_string(options->reason ? options->reason : "");
    int64_t delay_ms =
        options->delay_ms == UINT64_MAX ? CLIENTK_BACKOFF : (int64_t)options->delay_ms;
    bool dead = options->bury;
    enum kv_status status = clientk_queue_read_receipt(word_slice(&run->operands[0]), &job);
    if (status == KV_OK)
        status = options->bury ? clientk_queue_bury(run->queue, &job, reason)
                               : clientk_queue_fail(run->queue, &job, reason, delay_ms, &dead);
    return status == KV_OK ? queue_say(run, dead ? "dead" : "later", 0)
                           : queue_fail_with(run, status);
}

static int queue_release(struct queue_run *run)
{
    struct clientk_job job = {.id = 0};
    uint64_t delay_ms = run->options->delay_ms == UINT64_MAX ? 0 : run->options->delay_ms;
    enum kv_status status = clientk_queue_read_receipt(word_slice(&run->operands[0]), &job);
    if (status == KV_OK)
        status = clientk_queue_release(run->queue, &job, delay_ms);
    return status == KV_OK ? queue_say(run, NULL, 0) : queue_fail_with(run, status);
}

static int queue_extend(struct queue_run *run)
{
    struct clientk_job job = {.id = 0};
    enum kv_status status = clientk_queue_read_receipt(word_slice(&run->operands[0]), &job);
    if (status == KV_OK)
        status = clientk_queue_extend(run->queue, &job, run->options->lease_ms);
    return status == KV_OK ? queue_say(run, NULL, 0) : queue_fail_with(run, status);
}

/* Looking -------------------------------------------------------------------------------------- */

/* A clientk_visit_job. */
static bool print_listed_job(void *context, const struct clientk_job *job,
                             enum clientk_job_state state)
{
    struct queue_run *run = context;
    run->listed++;
    print_job(run, job, state, NULL);
    return !interrupt_pending() && !ferror(run->context->output.stream);
}

static int queue_change_state(struct queue_run *run, enum clientk_job_state state)
{
    uint64_t count = 0;
    char text[32];
    enum kv_status status =
        run->options->revive ? clientk_queue_revive(run->queue, run->options->count, &count)
                             : clientk_queue_drop(run->queue, state, run->options->count, &count);
    if (status != KV_OK)
        return queue_fail_with(run, status);
    snprintf(text, sizeof text, "%" PRIu64 " %s", count,
             run->options->revive ? "revived" : "dropped");
    return queue_say(run, text, count);
}

static int queue_list_state(struct queue_run *run, enum clientk_job_state state)
{
    const struct queue_options *options = run->options;
    if (options->revive && (state != CLIENTK_JOB_DEAD || options->drop))
        return queue_misuse(run->context, "--revive is for dead letters, and without --drop");
    if (options->revive || options->drop)
        return queue_change_state(run, state);
    size_t limit = options->count ? options->count : 10;
    if (run->listed >= limit)
        return EXIT_DONE;
    if (!run->names_states || state == CLIENTK_JOB_READY)
        print_job_header(run);
    enum kv_status status =
        clientk_queue_list(run->queue, state, limit - run->listed, print_listed_job, run);
    return status == KV_OK ? EXIT_DONE : queue_fail_with(run, status);
}

static int queue_dead(struct queue_run *run)
{
    return queue_list_state(run, CLIENTK_JOB_DEAD);
}

static int queue_peek(struct queue_run *run)
{
    return queue_list_state(run, CLIENTK_JOB_READY);
}

static int queue_list_all(struct queue_run *run)
{
    int code = EXIT_DONE;
    if (run->options->drop || run->options->revive)
        return queue_misuse(run->context, "say which jobs: ready, later or dead");
    run->names_states = true;
    for (enum clientk_job_state state = CLIENTK_JOB_READY; state <= CLIENTK_JOB_DEAD; state++)
        if (code == EXIT_DONE)
            code = queue_list_state(run, state);
    return code;
}

static int queue_list(struct queue_run *run)
{
    if (run->count == 0)
        return queue_list_all(run);
    for (enum clientk_job_state state = CLIENTK_JOB_READY; state <= CLIENTK_JOB_DEAD; state++)
        if (word_is(&run->operands[0], job_state_name(state)))
            return queue_list_state(run, state);
    return queue_misuse(run->context, "jobs are ready, leased, later or dead");
}

static int queue_length(struct queue_run *run)
{
    return queue_lengths_print(run->context, run->queue);
}

/* The command ---------------------------------------------------------------------------------- */

struct queue_word {
    const char *name, *usage;
    int (*run)(struct queue_run *run);
    size_t min, max; /* operands behind the queue's name */
};

static const struct queue_word queue_words[] = {
    {"put", "queue put NAME PAYLOAD...", queue_put, 1, SIZE_MAX},
    {"take", "queue take NAME [--wait]", queue_take, 0, 0},
    {"ack", "queue ack NAME RECEIPT...", queue_ack, 1, SIZE_MAX},
    {"fail", "queue fail NAME RECEIPT", queue_fail, 1, 1},
    {"release", "queue release NAME RECEIPT", queue_release, 1, 1},
    {"extend", "queue extend NAME RECEIPT", queue_extend, 1, 1},
    {"peek", "queue peek NAME", queue_peek, 0, 0},
    {"list", "queue list [NAME [ready|leased|later|dead]]", queue_list, 0, 1},
    {"length", "queue length NAME", queue_length, 0, 0},
    {"dead", "queue dead NAME [--revive|--drop]", queue_dead, 0, 0},
};

const char *queue_word_name(size_t number)
{
    return number < sizeof queue_words / sizeof queue_words[0] ? queue_words[number].name : NULL;
}

int queue_run(struct cli_context *context, const void *options_given, const struct word *operands,
              size_t count)
{
    const struct queue_options *options = options_given;
    const struct queue_word *word = NULL;
    char sentence[128];
    for (size_t i = 0; i < sizeof queue_words / sizeof queue_words[0]; i++)
        if (word_is(&operands[0], queue_words[i].name))
            word = &queue_words[i];
    if (!word)
        return queue_misuse(context, "queue takes put, take, ack, fail, release, extend, peek, "
                                     "list, length or dead, and the name of a queue");
    if (count == 1 && word->run == queue_list && !options->drop && !options->revive)
        return queue_lengths_print_all(context);
    if (count < 2 || count - 2 < word->min || count - 2 > word->max) {
        snprintf(sentence, sizeof sentence, "usage: %s", word->usage);
        return queue_misuse(context, sentence);
    }
    context->patient |= queue_waits(options); /* the daemon may be started again meanwhile */
    int code = cli_connect_for(context, NAME);
    if (code != EXIT_DONE)
        return code;
    struct queue_run run = {
        .context = context, .options = options, .operands = operands + 2, .count = count - 2};
    const struct clientk_queue_options queue_options = {.lease_ms = options->lease_ms};
    struct kv_error error = {0};
    enum kv_status status = clientk_queue_open(context->client, word_slice(&operands[1]),
                                               &queue_options, &run.queue, &error);
    if (status != KV_OK)
        return output_failure(&context->output, NAME, status, error.text);
    code = word->run(&run);
    clientk_queue_close(run.queue);
    return code;
}
