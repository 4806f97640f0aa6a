#include "clientk/program/commands/key_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clientk/program/cli/command.h"
#include "common/time/clock.h"
#include "common/report/error.h"

#define MAX_KEY_BYTES   65535u
#define MAX_VALUE_BYTES (64u << 20) /* no store allows more */

const char *key_command_sync_name(int sync)
{
    static const char *const names[] = {"default", "interval", "always"};
    return (size_t)sync < sizeof names / sizeof names[0] ? names[sync] : NULL;
}

const struct key_command_options key_command_option_defaults = {.min = INT64_MIN, .max = INT64_MAX};

/* Reads all of standard input into self->owned. */
static enum kv_status read_stdin(struct key_command *self, struct kv_error *error)
{
    size_t size = 0, capacity = 0;
    for (;;) {
        if (size == capacity) {
            capacity = capacity ? capacity * 2 : 64u << 10;
            char *bytes = realloc(self->owned, capacity);
            if (!bytes)
                return kv_error_set(error, KV_NO_MEMORY, "no memory for the value");
            self->owned = bytes;
        }
        ssize_t got = read(STDIN_FILENO, self->owned + size, capacity - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kv_error_set_errno(error, "reading the value from standard input");
        if (got == 0)
            break;
        size += (size_t)got;
        if (size > MAX_VALUE_BYTES)
            return kv_error_set(error, KV_VALUE_TOO_BIG,
                                "standard input holds more than the 64 MiB a value can have");
    }
    self->operation.value = kv_slice(self->owned, size);
    return KV_OK;
}

static enum kv_status take_value_words(struct key_command *self, const struct word *words,
                                       size_t count, bool may_read_stdin, struct kv_error *error)
{
    if (count > 1) {
        size_t size = count - 1;
        for (size_t i = 0; i < count; i++)
            size += words[i].size;
        self->owned = malloc(size);
        if (!self->owned)
            return kv_error_set(error, KV_NO_MEMORY, "no memory for the value");
        char *at = self->owned;
        for (size_t i = 0; i < count; i++) {
            if (i > 0)
                *at++ = ' ';
            memcpy(at, words[i].data, words[i].size);
            at += words[i].size;
        }
        self->operation.value = kv_slice(self->owned, size);
        return KV_OK;
    }
    if (may_read_stdin && !words[0].literal && word_is(&words[0], "-"))
        return read_stdin(self, error);
    self->operation.value = word_slice(&words[0]);
    return KV_OK;
}

static enum kv_status take_delta(struct key_command *self, const struct word *words, size_t count,
                                 struct kv_error *error)
{
    int64_t delta = 1;
    enum kv_status status = KV_OK;
    if (count > 0)
        status = arguments_integer(&words[0], "the number", &delta, error);
    if (status == KV_OK && self->kind->shape == SHAPE_KEY_DECREMENT &&
        __builtin_sub_overflow((int64_t)0, delta, &delta))
        return kv_error_set(error, KV_USAGE, "%" PRId64 " cannot be subtracted in 64 bits", delta);
    self->operation.delta = delta;
    return status;
}

static enum kv_status take_operands(struct key_command *self, const struct word *operands,
                                    size_t count, unsigned place, struct kv_error *error)
{
    switch (self->kind->shape) {
    case SHAPE_KEY:
        return KV_OK;
    case SHAPE_KEY_VALUE:
        return take_value_words(self, operands, count, place == COMMAND_SHELL, error);
    case SHAPE_KEY_DELTA:
    case SHAPE_KEY_INCREMENT:
    case SHAPE_KEY_DECREMENT:
        return take_delta(self, operands, count, error);
    case SHAPE_KEY_DURATION:
        return arguments_duration_ms(&operands[0], "the duration", place != COMMAND_BATCH,
                                     &self->options.ttl_ms, error);
    }
    return KV_OK;
}

static enum kv_status check_options(const struct key_command *self, unsigned place,
                                    struct kv_error *error)
{
    const struct key_command_options *options = &self->options;
    int conditions = options->if_absent + options->if_present + (options->if_version != 0);
    if (conditions > 1)
        return kv_error_set(error, KV_USAGE,
                            "--if-absent, --if-present and --if-version exclude each other");
    if ((options->ttl_ms != 0) + (options->expires_at_ms != 0) + options->keep_ttl > 1)
        return kv_error_set(error, KV_USAGE,
                            "--ttl, --expires-at and --keep-ttl exclude each other");
    if (place != COMMAND_BATCH && options->expires_at_ms != 0 &&
        options->expires_at_ms <= clock_realtime_ms())
        return kv_error_set(error, KV_USAGE,
                            "--expires-at: %" PRIu64 " is over: it is in milliseconds since 1970, "
                            "and a time lies ahead; del KEY deletes at once",
                            options->expires_at_ms);
    if (options->min > options->max)
        return kv_error_set(error, KV_USAGE, "--min %" PRId64 " is above --max %" PRId64,
                            options->min, options->max);
    return KV_OK;
}

/* Copies the options into the operation. */
static void apply_options(struct key_command *self)
{
    const struct key_command_options *options = &self->options;
    uint64_t expiry_ms =
        options->ttl_ms ? clock_realtime_ms() + options->ttl_ms : options->expires_at_ms;
    enum clientk_durability durability = (enum clientk_durability)options->sync;
    self->operation.write = (struct clientk_write_options){.if_absent = options->if_absent,
                                                           .if_present = options->if_present,
                                                           .if_version = options->if_version,
                                                           .expiry_ms = expiry_ms,
                                                           .keep_expiry = options->keep_ttl,
                                                           .durability = durability};
    self->operation.add = (struct clientk_add_options){.has_min = true,
                                                       .has_max = true,
                                                       .if_present = options->no_create,
                                                       .min = options->min,
                                                       .max = options->max,
                                                       .initial = options->initial,
                                                       .expiry_ms = expiry_ms,
                                                       .durability = durability};
}

enum kv_status key_command_build(struct key_command *self, const char *name,
                                 const struct key_command_kind *kind,
                                 const struct key_command_options *options,
                                 const struct word *operands, size_t count, unsigned place,
                                 struct kv_error *error)
{
    *self = (struct key_command){
        .name = name,
        .kind = kind,
        .options = *options,
        .operation = {.opcode = kind->opcode, .key = word_slice(&operands[0])}};
    if (operands[0].size == 0 || operands[0].size > MAX_KEY_BYTES)
        return kv_error_set(error, KV_BAD_KEY,
                            "the key has %zu bytes; keys have from 1 to 65535 bytes",
                            operands[0].size);
    enum kv_status status = check_options(self, place, error);
    if (status == KV_OK)
        status = take_operands(self, operands + 1, count - 1, place, error);
    if (status == KV_OK)
        apply_options(self);
    return status;
}

/* Writes "never", or how long from now and when (local time), into `out`. */
static void describe_expiry(uint64_t expiry_ms, char *out, size_t size)
{
    if (expiry_ms == 0) {
        snprintf(out, size, "never");
        return;
    }
    time_t seconds = (time_t)(expiry_ms / 1000);
    struct tm local;
    char when[40] = "a far day";
    if (localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(out, size, "%s", when);
}

/* Makes the time until the entry expires the answer. */
static void fill_ttl(struct answer *answer, const struct clientk_value *value, char *text,
                     size_t size)
{
    answer->text = "never";
    if (value->expiry_ms == 0)
        return;
    uint64_t now_ms = clock_realtime_ms();
    uint64_t left_ms = value->expiry_ms > now_ms ? value->expiry_ms - now_ms : 0;
    answer->has_number = true;
    answer->number = left_ms > INT64_MAX ? INT64_MAX : (int64_t)left_ms;
    snprintf(text, size, "%" PRId64 " ms", answer->number);
    answer->text = text;
}

static void fill_success(struct answer *answer, const struct key_command *self,
                         const struct clientk_result *result, char *text, size_t size)
{
    const struct clientk_value *value = &result->value;
    answer->value = kv_slice(value->data ? value->data : "", value->size);
    answer->version = value->version;
    answer->expiry_ms = value->expiry_ms;
    answer->has_entry = value->version != 0;
    switch (self->kind->answer) {
    case ANSWER_OK:
        break;
    case ANSWER_OLD_VALUE:
        answer->has_value = result->found;
        if (!result->found) {
            answer->status = KV_NOT_FOUND;
            answer->sentence = "there was no old value; the new one is stored";
        }
        break;
    case ANSWER_VALUE:
        answer->has_value = true;
        break;
    case ANSWER_NUMBER:
        answer->has_number = true;
        answer->number = result->number;
        break;
    case ANSWER_TTL:
        fill_ttl(answer, value, text, size);
        break;
    }
}

int key_command_answer(struct output *output, const struct key_command *self)
{
    char text[48];
    const struct clientk_result *result = &self->result;
    struct answer answer = {.command = self->name,
                            .key = self->operation.key,
                            .status = result->status,
                            .sentence = *self->sentence ? self->sentence : NULL};
    if (result->status == KV_OK)
        fill_success(&answer, self, result, text, sizeof text);
    if (self->options.meta && output->format == OUTPUT_TEXT && answer.status == KV_OK) {
        char expiry[64];
        describe_expiry(result->value.expiry_ms, expiry, sizeof expiry);
        fprintf(output->stream, "version %" PRIu64, result->value.version);
        if (self->kind->answer != ANSWER_OK || self->kind->opcode == CLIENTK_EXISTS)
            fprintf(output->stream, ", %zu bytes, expires %s", result->value.size, expiry);
        fputc('\n', output->stream);
    }
    return output_answer(output, &answer);
}

static bool is_write_command(const struct key_command *self)
{
    enum clientk_opcode opcode = self->operation.opcode;
    return opcode != CLIENTK_GET && opcode != CLIENTK_EXISTS;
}

/* Says what the status alone does not say. call_status: what the call as a whole returned. */
static void describe_failure(struct clientk *client, struct key_command *self,
                             enum kv_status call_status)
{
    enum kv_status status = self->result.status;
    char *sentence = self->sentence;
    if (status == KV_VALUE_TOO_BIG) {
        struct clientk_info info;
        clientk_info(client, &info);
        snprintf(sentence, KEY_COMMAND_SENTENCE_BYTES,
                 "the value would have more than the %" PRIu64
                 " bytes that this server takes (serverk --max-value raises that)",
                 info.max_value_bytes);
    } else if (status == KV_OUT_OF_BOUNDS) {
        int64_t sum;
        if (__builtin_add_overflow(self->result.number, self->operation.delta, &sum))
            snprintf(self->sentence, KEY_COMMAND_SENTENCE_BYTES,
                     "overflow: the value is %" PRId64
                     ", and the sum does not fit a number of 64 bits; nothing changed",
                     self->result.number);
        else
            snprintf(self->sentence, KEY_COMMAND_SENTENCE_BYTES,
                     "the sum would leave its bounds; nothing changed");
    } else if (status == call_status || exit_code_of(status) == EXIT_NO_SERVER) {
        snprintf(sentence, KEY_COMMAND_SENTENCE_BYTES, "%s%s",
                 status == call_status ? cli_sentence(status) : cli_explain(status),
                 status == KV_TIMEOUT && is_write_command(self)
                     ? "; it may have been executed, or be executed yet"
                     : "");
    }
}

size_t key_commands_at_once(struct clientk *client)
{
    struct clientk_info info;
    clientk_info(client, &info);
    uint64_t most = info.max_value_bytes > 0 ? MAX_VALUE_BYTES / info.max_value_bytes : 1;
    return most < 1 ? 1 : most < KEY_COMMANDS_AT_ONCE ? (size_t)most : KEY_COMMANDS_AT_ONCE;
}

enum kv_status key_command_execute(struct clientk *client, struct key_command *asked, size_t count)
{
    struct clientk_operation operations[KEY_COMMANDS_AT_ONCE] = {0};
    struct clientk_result results[KEY_COMMANDS_AT_ONCE] = {0};
    for (size_t i = 0; i < count; i++)
        operations[i] = asked[i].operation;
    enum kv_status call_status = clientk_execute(client, operations, count, results);
    for (size_t i = 0; i < count; i++) {
        asked[i].result = results[i];
        if (results[i].status != KV_OK && results[i].status != KV_NOT_FOUND)
            describe_failure(client, &asked[i], call_status);
    }
    return call_status == KV_NO_SERVER ? call_status : KV_OK;
}

void key_command_free(struct key_command *self)
{
    free(self->owned);
    self->owned = NULL;
    clientk_value_free(&self->result.value);
}
