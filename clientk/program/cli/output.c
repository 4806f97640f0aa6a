#include "clientk/program/cli/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"

const char *output_format_name(int format)
{
    static const char *const names[] = {"text", "raw", "json", "csv"};
    return (size_t)format < sizeof names / sizeof names[0] ? names[format] : NULL;
}

int exit_code_of(enum kv_status status)
{
    switch (status) {
    case KV_OK:
        return EXIT_DONE;
    case KV_NOT_FOUND:
    case KV_EXISTS:
    case KV_VERSION_MISMATCH:
    case KV_OUT_OF_BOUNDS:
    case KV_NOT_A_NUMBER:
        return EXIT_NOT_FOUND;
    case KV_USAGE:
    case KV_BAD_KEY:
    case KV_VALUE_TOO_BIG:
        return EXIT_USAGE;
    case KV_NO_SERVER:
    case KV_TIMEOUT:
    case KV_DEADLINE:
    case KV_OUTCOME_UNKNOWN:
        return EXIT_NO_SERVER;
    default:
        return EXIT_REFUSED;
    }
}

int transfer_exit_code(enum kv_status status)
{
    return status == KV_VALUE_TOO_BIG ? EXIT_REFUSED : exit_code_of(status);
}

bool status_ends_transfer(enum kv_status status)
{
    switch (status) {
    case KV_NO_SPACE:
    case KV_READ_ONLY:
    case KV_NOT_DURABLE:
    case KV_NO_MEMORY:
    case KV_LIMIT:
    case KV_OVERLOADED:
        return true;
    default:
        return exit_code_of(status) == EXIT_NO_SERVER;
    }
}

bool status_lacks_room(enum kv_status status)
{
    return status == KV_FULL || status == KV_QUOTA;
}

/* a multiple of 4 */
#define BASE64_PIECE_BYTES 4096u

/* Prints the bytes as RFC 4648, section 4, has them. */
static void print_base64(FILE *stream, struct kv_slice bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *data = bytes.data;
    char text[BASE64_PIECE_BYTES];
    size_t used = 0;
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t group = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                         (left > 2 ? (uint32_t)data[i + 2] : 0);
        text[used++] = digits[group >> 18];
        text[used++] = digits[group >> 12 & 63];
        text[used++] = left > 1 ? digits[group >> 6 & 63] : '=';
        text[used++] = left > 2 ? digits[group & 63] : '=';
        if (used == sizeof text || left <= 3) {
            fwrite(text, 1, used, stream);
            used = 0;
        }
    }
}

void output_json_bytes(FILE *stream, const char *name, struct kv_slice bytes)
{
    if (escape_is_utf8(bytes)) {
        fprintf(stream, "\"%s\":", name);
        escape_print_json(stream, bytes);
    } else {
        fprintf(stream, "\"%s_base64\":\"", name);
        print_base64(stream, bytes);
        fputc('"', stream);
    }
}

/* No bytes may have no address, and fwrite wants one. */
static void print_bytes(FILE *stream, struct kv_slice bytes)
{
    if (bytes.size > 0)
        fwrite(bytes.data, 1, bytes.size, stream);
}

/* Prints bytes in double quotes, each of their own doubled as RFC 4180 wants it. */
static void print_csv_quoted(FILE *stream, struct kv_slice bytes, bool escaped)
{
    const char *data = bytes.data;
    fputc('"', stream);
    for (size_t start = 0; start < bytes.size;) {
        const char *quote = memchr(data + start, '"', bytes.size - start);
        size_t end = quote ? (size_t)(quote - data) : bytes.size;
        if (escaped)
            escape_print(stream, kv_slice(data + start, end - start));
        else
            fwrite(data + start, 1, end - start, stream);
        if (quote)
            fputs("\"\"", stream);
        start = end + 1;
    }
    fputc('"', stream);
}

void output_csv_bytes(FILE *stream, struct kv_slice bytes)
{
    /* Text is what a spreadsheet reads; carriage returns and other bytes are escaped. */
    bool escaped = !escape_is_printable(bytes, true);
    bool quoted = false;
    for (const char *special = ",\"\n\t"; *special && bytes.size > 0; special++)
        quoted |= memchr(bytes.data, *special, bytes.size) != NULL;
    if (quoted)
        print_csv_quoted(stream, bytes, escaped);
    else if (escaped)
        escape_print(stream, bytes);
    else
        print_bytes(stream, bytes);
}

/* Returns true if the answer could be taken for that of a failure (print_text_failure). */
static bool reads_as_failure(struct kv_slice value)
{
    static const char not_found[] = "NOT FOUND", failed[] = "ERROR ";
    return (value.size == sizeof not_found - 1 &&
            memcmp(value.data, not_found, sizeof not_found - 1) == 0) ||
           (value.size >= sizeof failed - 1 && memcmp(value.data, failed, sizeof failed - 1) == 0);
}

static void print_text_value(struct output *output, struct kv_slice value)
{
    if (output->one_shot && !output->terminal) {
        print_bytes(output->stream, value);
        return;
    }
    bool needs_quotes = value.size == 0 || *(const char *)value.data == '"' ||
                        (!output->one_shot && reads_as_failure(value));
    if (!needs_quotes && escape_is_printable(value, output->one_shot)) {
        fwrite(value.data, 1, value.size, output->stream);
    } else {
        fputc('"', output->stream);
        escape_print(output->stream, value);
        fputc('"', output->stream);
    }
    fputc('\n', output->stream);
}

static const char *answer_sentence(const struct answer *answer)
{
    return answer->sentence && *answer->sentence ? answer->sentence
                                                 : kv_status_text(answer->status);
}

/* Prints the failure as a line after `place`: "clientk: get name: NOT FOUND". */
static void print_report(FILE *stream, const char *place, const struct answer *answer)
{
    fputs("clientk: ", stream);
    if (place) {
        escape_print_text(stream, place);
        fputs(": ", stream);
    }
    if (answer->command && answer->key.data) {
        fprintf(stream, "%s ", answer->command);
        escape_print_word(stream, answer->key);
        fputs(": ", stream);
    } else if (answer->command) {
        fprintf(stream, "%s: ", answer->command);
    }
    if (answer->status == KV_NOT_FOUND && !answer->sentence)
        fputs("NOT FOUND", stream);
    else
        escape_print_text(stream, answer_sentence(answer));
    fputc('\n', stream);
}

static void print_text_failure(struct output *output, const struct answer *answer)
{
    if (answer->status == KV_NOT_FOUND) {
        fputs("NOT FOUND\n", output->stream);
        return;
    }
    fprintf(output->stream, "ERROR %s: ", kv_status_name(answer->status));
    escape_print_text(output->stream, answer_sentence(answer));
    fputc('\n', output->stream);
}

static void print_answer_text(struct output *output, const struct answer *answer)
{
    if (answer->text)
        fprintf(output->stream, "%s\n", answer->text);
    else if (answer->has_value)
        print_text_value(output, answer->value);
    else if (answer->has_number)
        fprintf(output->stream, "%" PRId64 "\n", answer->number);
    else
        fputs("OK\n", output->stream);
}

static void print_raw(struct output *output, const struct answer *answer)
{
    if (answer->has_value)
        print_bytes(output->stream, answer->value);
    else if (answer->has_number)
        fprintf(output->stream, "%" PRId64, answer->number);
    if (!output->one_shot || answer->has_number)
        fputc('\n', output->stream);
}

static void print_answer_json(struct output *output, const struct answer *answer)
{
    FILE *stream = output->stream;
    fprintf(stream, "{\"command\":\"%s\"", answer->command ? answer->command : "");
    if (answer->key.data) {
        fputc(',', stream);
        output_json_bytes(stream, "key", answer->key);
    }
    fprintf(stream, ",\"status\":\"%s\"", kv_status_name(answer->status));
    if (answer->status != KV_OK) {
        fputs(",\"error\":", stream);
        escape_print_json(stream, kv_slice_from_string(answer_sentence(answer)));
    }
    if (answer->has_value) {
        fputc(',', stream);
        output_json_bytes(stream, "value", answer->value);
    }
    if (answer->has_number)
        fprintf(stream, ",\"number\":%" PRId64, answer->number);
    if (answer->has_entry)
        fprintf(stream, ",\"version\":%" PRIu64 ",\"expiry_ms\":%" PRIu64, answer->version,
                answer->expiry_ms);
    fputs("}\n", stream);
}

void output_begin(struct output *output)
{
    if (output->format != OUTPUT_CSV)
        return;
    fputs("command,key,status,value,number,version,expiry_ms,error\n", output->stream);
    output->csv_started = true;
    output->csv_entries = false;
}

static void print_answer_csv(struct output *output, const struct answer *answer)
{
    FILE *stream = output->stream;
    if (!output->csv_started || output->csv_entries)
        output_begin(output);
    fprintf(stream, "%s,", answer->command ? answer->command : "");
    output_csv_bytes(stream, answer->key);
    fprintf(stream, ",%s,", kv_status_name(answer->status));
    if (answer->has_value)
        output_csv_bytes(stream, answer->value);
    fputc(',', stream);
    if (answer->has_number)
        fprintf(stream, "%" PRId64, answer->number);
    if (answer->has_entry)
        fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",", answer->version, answer->expiry_ms);
    else
        fputs(",,,", stream);
    if (answer->status != KV_OK)
        output_csv_bytes(stream, kv_slice_from_string(answer_sentence(answer)));
    fputc('\n', stream);
}

int output_answer(struct output *output, const struct answer *answer)
{
    bool failed = answer->status != KV_OK;
    bool to_report = failed && output->reports && answer->status != KV_NOT_FOUND;
    if (failed && output->one_shot)
        print_report(stderr, NULL, answer);
    if (to_report)
        print_report(output->reports, output->place, answer);

    /* If answer and report go to one terminal, the report, which names the place, is enough. */
    bool said = failed && (output->one_shot || (to_report && output->terminal));
    if (output->format == OUTPUT_JSON)
        print_answer_json(output, answer);
    else if (output->format == OUTPUT_CSV)
        print_answer_csv(output, answer);
    else if (failed && !said)
        print_text_failure(output, answer);
    else if (!failed && output->format == OUTPUT_TEXT)
        print_answer_text(output, answer);
    else if (!failed)
        print_raw(output, answer);
    return exit_code_of(answer->status);
}

int output_failure(struct output *output, const char *command, enum kv_status status,
                   const char *sentence)
{
    struct answer answer = {.command = command, .status = status, .sentence = sentence};
    return output_answer(output, &answer);
}

/* Prints a word and a decimal number: printf would take longer than the rest of an entry. */
static void put_decimal(FILE *stream, const char *word, uint64_t number)
{
    char text[24], *at = text + sizeof text;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    fputs(word, stream);
    fwrite(at, 1, (size_t)(text + sizeof text - at), stream);
}

/* A value on a terminal is cut behind so many bytes: get shows it whole. */
#define SHOWN_VALUE_BYTES 200u

void output_print_value(const struct output *output, struct kv_slice value)
{
    if (!output->terminal || value.size <= 2 * SHOWN_VALUE_BYTES) {
        escape_print_word(output->stream, value);
        return;
    }
    escape_print_word(output->stream, kv_slice(value.data, SHOWN_VALUE_BYTES));
    fprintf(output->stream, "... (%zu bytes)", value.size);
}

void output_begin_entries(struct output *output)
{
    if (output->format != OUTPUT_CSV || (output->csv_started && output->csv_entries))
        return;
    fputs("key,value,version,expiry_ms\n", output->stream);
    output->csv_started = output->csv_entries = true;
}

static void print_csv_entry(struct output *output, struct kv_slice key, struct kv_slice value,
                            uint64_t version, uint64_t expiry_ms)
{
    output_begin_entries(output);
    output_csv_bytes(output->stream, key);
    fputc(',', output->stream);
    output_csv_bytes(output->stream, value);
    put_decimal(output->stream, ",", version);
    put_decimal(output->stream, ",", expiry_ms);
    fputc('\n', output->stream);
}

void output_entry(struct output *output, struct kv_slice key, struct kv_slice value,
                  uint64_t version, uint64_t expiry_ms)
{
    FILE *stream = output->stream;
    switch (output->format) {
    case OUTPUT_TEXT:
        escape_print_word(stream, key);
        if (value.data) {
            fputc(' ', stream);
            output_print_value(output, value);
        }
        fputc('\n', stream);
        break;
    case OUTPUT_RAW:
        print_bytes(stream, key);
        if (value.data)
            fputc('\t', stream);
        print_bytes(stream, value);
        fputc('\n', stream);
        break;
    case OUTPUT_JSON:
        fputc('{', stream);
        output_json_bytes(stream, "key", key);
        if (value.data) {
            fputc(',', stream);
            output_json_bytes(stream, "value", value);
        }
        put_decimal(stream, ",\"version\":", version);
        put_decimal(stream, ",\"expiry_ms\":", expiry_ms);
        fputs("}\n", stream);
        break;
    case OUTPUT_CSV:
        print_csv_entry(output, key, value, version, expiry_ms);
        break;
    }
}
