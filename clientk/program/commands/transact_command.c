#include "clientk/program/commands/transact_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/commands/invocation.h"
#include "common/report/error.h"
#include "common/text/escape.h"
#include "common/text/parse.h"

#define GUARD_ROW(name, argument, help)                                                     \
    {                                                                                       \
        name, 0, OPTION_TEXT, argument, help, OPTION_FIELD(struct transact_options, guard), \
            .expects = "a key"                                                              \
    }

const struct option_row transact_option_rows[] = {
    GUARD_ROW("if-version", "KEY VERSION", "the entry must have this version; 0: be absent"),
    GUARD_ROW("if-value", "KEY VALUE", "the entry must have this value"),
    GUARD_ROW("if-present", "KEY", "the key must exist"),
    GUARD_ROW("if-absent", "KEY", "the key must not exist"),
    {"sync", 0, OPTION_CHOICE, "LEVEL",
     "default (the server's), interval, or always: on disk before the answer",
     OPTION_FIELD(struct transact_options, sync), .choice_name = key_command_sync_name},
    {.name = NULL},
};
const struct transact_options transact_option_defaults = {0};

/* Words ------------------------------------------------------------------------------------- */

static bool is_separator(const struct word *word)
{
    return !word->literal && (strcmp(word->data, "--") == 0 || strcmp(word->data, "--else") == 0);
}

static bool begins_else(const struct word *word)
{
    return strcmp(word->data, "--else") == 0;
}

/* Returns how many words follow that option; 0: it is no guard. */
static size_t guard_operands(const struct word *word, enum clientk_guard_kind *kind)
{
    static const struct {
        const char *name;
        enum clientk_guard_kind kind;
        size_t operands;
    } guards[] = {{"--if-version", CLIENTK_GUARD_VERSION, 2},
                  {"--if-value", CLIENTK_GUARD_VALUE, 2},
                  {"--if-present", CLIENTK_GUARD_PRESENT, 1},
                  {"--if-absent", CLIENTK_GUARD_ABSENT, 1}};
    for (size_t i = 0; !word->literal && i < sizeof guards / sizeof guards[0]; i++) {
        if (strcmp(word->data, guards[i].name) != 0)
            continue;
        *kind = guards[i].kind;
        return guards[i].operands;
    }
    return 0;
}

static enum kv_status take_guard(struct transact_options *options, enum clientk_guard_kind kind,
                                 const struct word *words, size_t operands, struct kv_error *error)
{
    if (options->guard_count == CLIENTK_MAX_TRANSACTION_STEPS)
        return kv_error_set(error, KV_USAGE, "a transaction has at most %u guards and steps",
                            CLIENTK_MAX_TRANSACTION_STEPS);
    struct guard_words *guard = &options->guards[options->guard_count++];
    *guard = (struct guard_words){.kind = kind, .key = words[0], .wanted = words[operands - 1]};
    uint64_t version;
    if (kind == CLIENTK_GUARD_VERSION && (strlen(guard->wanted.data) != guard->wanted.size ||
                                          !parse_u64(guard->wanted.data, 0, UINT64_MAX, &version)))
        return kv_error_set(error, KV_USAGE,
                            "--if-version takes a key and its version: '%.60s' is none "
                            "(get --meta shows it; 0: the key is absent)",
                            guard->wanted.data);
    return KV_OK;
}

enum kv_status transact_take_words(void *options_given, struct word *words, size_t *count,
                                   unsigned place, struct kv_error *error)
{
    struct transact_options *options = options_given;
    size_t first_part = 0, kept = 0;
    while (first_part < *count && !is_separator(&words[first_part]))
        first_part++;
    options->place = place;
    options->steps = words + first_part;
    options->step_words = *count - first_part;
    for (size_t at = 0; at < first_part;) {
        enum clientk_guard_kind kind;
        size_t operands = guard_operands(&words[at], &kind);
        if (operands == 0) {
            words[kept++] = words[at++];
            continue;
        }
        if (first_part - at - 1 < operands)
            return kv_error_set(error, KV_USAGE, "%s takes %s", words[at].data,
                                operands == 1                   ? "a key"
                                : kind == CLIENTK_GUARD_VERSION ? "a key and a version"
                                                                : "a key and a value");
        enum kv_status status = take_guard(options, kind, &words[at + 1], operands, error);
        if (status != KV_OK)
            return status;
        at += 1 + operands;
    }
    *count = kept;
    return KV_OK;
}

/* Steps ------------------------------------------------------------------------------------- */

/* A transaction of the command line. */
struct transact_job {
    const struct transact_options *options;
    struct clientk_guard guards[CLIENTK_MAX_TRANSACTION_STEPS];
    struct invocation steps[CLIENTK_MAX_TRANSACTION_STEPS]; /* `then`, behind it `otherwise` */
    struct clientk_operation operations[CLIENTK_MAX_TRANSACTION_STEPS];
    struct clientk_result results[CLIENTK_MAX_TRANSACTION_STEPS];
    size_t then_count, step_count;
    struct clientk_transacted transacted;
};

static bool may_be_step(const struct invocation *step)
{
    return step->for_key && step->key_command.operation.opcode != CLIENTK_EXCHANGE;
}

static enum kv_status add_step(struct transact_job *job, struct word *words, size_t count,
                               struct kv_error *error)
{
    struct kv_error why = {0};
    if (job->step_count == CLIENTK_MAX_TRANSACTION_STEPS)
        return kv_error_set(error, KV_USAGE, "a transaction has at most %u guards and steps",
                            CLIENTK_MAX_TRANSACTION_STEPS);
    struct invocation *step = &job->steps[job->step_count++];
    unsigned place = job->options->place;
    enum kv_status status = invocation_prepare(step, words, count, place, NULL, &why);
    if (status == KV_OK && count == 0)
        status = kv_error_set(&why, KV_USAGE, "there is no command");
    if (status == KV_OK && !may_be_step(step))
        status = kv_error_set(&why, KV_USAGE,
                              "%s is no step of a transaction: put, get, del, exists, ttl, add, "
                              "incr, decr, append, touch and persist are",
                              step->command->name);
    if (status != KV_OK)
        return kv_error_set(error, status, "step %zu: %s", job->step_count, why.text);
    job->operations[job->step_count - 1] = step->key_command.operation;
    return KV_OK;
}

static enum kv_status take_steps(struct transact_job *job, struct kv_error *error)
{
    struct word *words = job->options->steps;
    size_t count = job->options->step_words;
    bool otherwise = false;
    for (size_t at = 0; at < count;) {
        if (begins_else(&words[at])) {
            if (otherwise)
                return kv_error_set(error, KV_USAGE, "--else stands twice");
            otherwise = true;
            job->then_count = job->step_count;
        }
        size_t end = ++at;
        while (end < count && !is_separator(&words[end]))
            end++;
        enum kv_status status = add_step(job, &words[at], end - at, error);
        if (status != KV_OK)
            return status;
        at = end;
    }
    if (!otherwise)
        job->then_count = job->step_count;
    return KV_OK;
}

static void fill_guards(struct transact_job *job)
{
    for (size_t i = 0; i < job->options->guard_count; i++) {
        const struct guard_words *from = &job->options->guards[i];
        struct clientk_guard *guard = &job->guards[i];
        *guard = (struct clientk_guard){.kind = from->kind, .key = word_slice(&from->key)};
        if (from->kind == CLIENTK_GUARD_VERSION)
            parse_u64(from->wanted.data, 0, UINT64_MAX, &guard->version);
        else if (from->kind == CLIENTK_GUARD_VALUE)
            guard->value = word_slice(&from->wanted);
    }
}

/* Answers ----------------------------------------------------------------------------------- */

#define SENTENCE_BYTES 640u
#define SHOWN_BYTES    60u

/* Writes the bytes as text that may be cut off. */
static void show_bytes(struct kv_slice bytes, char text[ESCAPE_MAX_BYTES(SHOWN_BYTES)])
{
    if (bytes.size > SHOWN_BYTES)
        bytes.size = SHOWN_BYTES;
    *escape_to(text, bytes) = '\0';
}

/* Says which guard did not hold. */
static void describe_guard(const struct transact_job *job, char sentence[SENTENCE_BYTES])
{
    char key[ESCAPE_MAX_BYTES(SHOWN_BYTES)], what[64];
    size_t at = job->transacted.guard;
    const struct clientk_guard *guard = &job->guards[at];
    show_bytes(guard->key, key);
    switch (guard->kind) {
    case CLIENTK_GUARD_VERSION:
        if (guard->version == 0)
            snprintf(what, sizeof what, "exists");
        else
            snprintf(what, sizeof what, "has not version %" PRIu64, guard->version);
        break;
    case CLIENTK_GUARD_PRESENT:
        snprintf(what, sizeof what, "does not exist");
        break;
    case CLIENTK_GUARD_ABSENT:
        snprintf(what, sizeof what, "exists");
        break;
    case CLIENTK_GUARD_VALUE:
        snprintf(what, sizeof what, "has another value, or none");
        break;
    }
    bool otherwise = job->step_count > job->then_count;
    snprintf(sentence, SENTENCE_BYTES, "guard %zu does not hold, \"%s\" %s; %s", at + 1, key, what,
             otherwise ? "the steps behind --else were done" : "nothing changed");
}

/* Prints an answer for each step that was done, one a line. */
static void answer_steps(struct cli_context *context, struct transact_job *job, size_t first)
{
    struct output *output = &context->output;
    bool one_shot = output->one_shot;
    output->one_shot = false; /* several answers stand in several lines */
    FILE *reports = output->reports;
    output->reports = NULL;
    for (size_t i = 0; i < job->transacted.results; i++) {
        struct key_command *step = &job->steps[first + i].key_command;
        step->result = job->results[i];
        job->results[i] = (struct clientk_result){0};
        key_command_answer(output, step);
    }
    output->one_shot = one_shot;
    output->reports = reports;
}

/* The sentence for a transaction that failed with this status. */
static const char *sentence_of_failure(enum kv_status status)
{
    if (status == KV_BUFFER_TOO_SMALL)
        return "the values that are read are together more than one answer holds (serverk "
               "--max-value, about)";
    return cli_sentence(status);
}

static int answer_transact(struct cli_context *context, struct transact_job *job,
                           enum kv_status status)
{
    char sentence[SENTENCE_BYTES + 64] = "";
    struct output *output = &context->output;
    switch (job->transacted.outcome) {
    case CLIENTK_DONE:
        answer_steps(context, job, 0);
        if (job->transacted.results > 0 && output->format != OUTPUT_JSON &&
            output->format != OUTPUT_CSV)
            return EXIT_DONE;
        break;
    case CLIENTK_ELSE:
        answer_steps(context, job, job->then_count);
        describe_guard(job, sentence);
        status = KV_VERSION_MISMATCH;
        break;
    case CLIENTK_FAILED:
        snprintf(sentence, sizeof sentence, "%.600s; nothing changed", sentence_of_failure(status));
        break;
    case CLIENTK_UNKNOWN:
        snprintf(sentence, sizeof sentence, "%.600s%s", cli_sentence(status),
                 status == KV_TIMEOUT ? "; it may have been executed, or be executed yet" : "");
        break;
    }
    return output_failure(output, "transact", status, sentence);
}

static int run_job(struct cli_context *context, struct transact_job *job)
{
    const struct transact_options *options = job->options;
    struct kv_error error = {0};
    enum kv_status status = take_steps(job, &error);
    if (status == KV_OK && options->guard_count + job->step_count == 0)
        status = kv_error_set(&error, KV_USAGE,
                              "there are no guards and no steps: transact --if-absent order:1 "
                              "-- add stock -1 --min 0 -- put order:1 Ada");
    if (status == KV_OK && options->guard)
        status = kv_error_set(&error, KV_USAGE,
                              "write a guard in full, and its words apart: --if-absent KEY");
    if (status != KV_OK)
        return output_failure(&context->output, "transact", status, error.text);
    int code = cli_connect_for(context, "transact");
    if (code != EXIT_DONE)
        return code;
    fill_guards(job);
    const struct clientk_transaction transaction = {
        .guards = job->guards,
        .guard_count = options->guard_count,
        .then = job->operations,
        .then_count = job->then_count,
        .otherwise = job->operations + job->then_count,
        .otherwise_count = job->step_count - job->then_count,
        .durability = (enum clientk_durability)options->sync};
    status = clientk_transact(context->client, &transaction, job->results, &job->transacted);
    return answer_transact(context, job, status);
}

int transact_run(struct cli_context *context, const void *options, const struct word *operands,
                 size_t count)
{
    (void)operands;
    (void)count;
    struct transact_job *job = calloc(1, sizeof *job);
    if (!job)
        return output_failure(&context->output, "transact", KV_NO_MEMORY, NULL);
    job->options = options;
    int code = run_job(context, job);
    for (size_t i = 0; i < CLIENTK_MAX_TRANSACTION_STEPS; i++) {
        clientk_value_free(&job->results[i].value);
        invocation_free(&job->steps[i]);
    }
    free(job);
    return code;
}

/* get --together ---------------------------------------------------------------------------- */

static int answer_together(struct cli_context *context, const struct kv_slice *keys, size_t count,
                           const struct clientk_result *results)
{
    struct output *output = &context->output;
    bool one_shot = output->one_shot;
    int code = EXIT_DONE;
    output->one_shot = false; /* one line for each key */
    for (size_t i = 0; i < count; i++) {
        const struct clientk_value *value = &results[i].value;
        bool found = results[i].status == KV_OK;
        struct answer answer = {.command = "get",
                                .key = keys[i],
                                .status = results[i].status,
                                .has_value = found,
                                .value =
                                    kv_slice(found ? value->data : "", found ? value->size : 0),
                                .has_entry = found,
                                .version = value->version,
                                .expiry_ms = value->expiry_ms};
        int of_key = output_answer(output, &answer);
        code = of_key > code ? of_key : code;
    }
    output->one_shot = one_shot;
    return code;
}

int get_together_run(struct cli_context *context, const void *options, const struct word *operands,
                     size_t count)
{
    const struct key_command_options *of_get = options;
    struct kv_slice keys[CLIENTK_MAX_TRANSACTION_STEPS];
    if (of_get->meta)
        return output_failure(&context->output, "get", KV_USAGE,
                              "--together does not go with --meta: --format json shows versions");
    if (count == 0 || count > CLIENTK_MAX_TRANSACTION_STEPS)
        return output_failure(&context->output, "get", KV_USAGE,
                              "--together reads from 1 to 128 keys");
    for (size_t i = 0; i < count; i++)
        keys[i] = word_slice(&operands[i]);
    int code = cli_connect_for(context, "get");
    if (code != EXIT_DONE)
        return code;
    struct clientk_result *results = calloc(count, sizeof *results);
    if (!results)
        return output_failure(&context->output, "get", KV_NO_MEMORY, NULL);
    enum kv_status status = clientk_get_together(context->client, keys, count, results);
    code = status == KV_OK
               ? answer_together(context, keys, count, results)
               : output_failure(&context->output, "get", status, sentence_of_failure(status));
    for (size_t i = 0; i < count; i++)
        clientk_value_free(&results[i].value);
    free(results);
    return code;
}
