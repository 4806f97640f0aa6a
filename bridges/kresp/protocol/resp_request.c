#include "bridges/kresp/protocol/resp_request.h"

#include <ctype.h>
#include <stdio.h>

#include "bridges/kresp/protocol/decimal.h"

#define UNAUTHENTICATED_MAX_ARGUMENTS  10
#define UNAUTHENTICATED_MAX_BULK_BYTES 16384

/* What one call works with. */
struct request_reader {
    struct resp_request *request;
    const struct resp_limits *limits;
    char *bytes; /* the bytes of the buffer */
    size_t size;
    char *problem;
};

static enum resp_outcome bad(struct request_reader *reader, const char *problem)
{
    snprintf(reader->problem, RESP_PROBLEM_BYTES, "%s", problem);
    return RESP_BAD;
}

/* Adds an argument, or finds that it exceeds a limit or the memory. */
static void add_span(struct request_reader *reader, size_t offset, size_t size)
{
    struct resp_request *request = reader->request;
    struct resp_span span = {offset, size};
    request->count++;
    request->request_bytes += size + RESP_ARGUMENT_OVERHEAD_BYTES;
    if (size > reader->limits->max_argument_bytes ||
        request->request_bytes > reader->limits->max_request_bytes)
        request->oversized = true;
    if (request->oversized)
        return;
    byte_buffer_append(&request->spans, &span, sizeof span);
    request->oversized = request->spans.failed;
}

/* Begins a request where the last one ended. */
static void begin(struct resp_request *request)
{
    request->started = true;
    request->given_out = false;
    request->first = request->at;
    request->count = 0;
    request->request_bytes = 0;
    request->oversized = false;
    request->expected = 0;
    request->bulk_bytes = -1;
    request->spans.start = request->spans.end = 0;
    request->spans.failed = false;
}

static enum resp_outcome finish_request(struct resp_request *request)
{
    request->given_out = true;
    return request->oversized ? RESP_OVERSIZED : RESP_REQUEST;
}

enum line_outcome { LINE_READ, LINE_INCOMPLETE, LINE_TOO_LONG };

/* Reads the header line at `at`, such as "*3\r\n" or "$5\r\n", without its first byte and its
 * end. */
static enum line_outcome read_line(struct request_reader *reader, struct kv_slice *text)
{
    struct resp_request *request = reader->request;
    const char *start = reader->bytes + request->at;
    size_t left = reader->size - request->at;
    const char *end = left > 0 ? memchr(start, '\r', left) : NULL;
    if (!end)
        return left > RESP_MAX_LINE_BYTES ? LINE_TOO_LONG : LINE_INCOMPLETE;
    size_t size = (size_t)(end - start);
    if (size + 2 > left)
        return LINE_INCOMPLETE;
    *text = kv_slice(start + 1, size > 0 ? size - 1 : 0);
    request->at += size + 2;
    return LINE_READ;
}

/* Reads the header of an array of up to 9 arguments, such as "*3\r\n", which nearly all requests
 * have; false: it is something else, or incomplete. */
static bool read_small_array_header(struct request_reader *reader)
{
    struct resp_request *request = reader->request;
    const char *at = reader->bytes + request->at;
    if (reader->size - request->at < 4 || at[1] < '1' || at[1] > '9' || at[2] != '\r')
        return false;
    request->expected = at[1] - '0';
    request->at += 4;
    return true;
}

static enum resp_outcome read_array_header(struct request_reader *reader)
{
    struct kv_slice text;
    int64_t expected;
    switch (read_line(reader, &text)) {
    case LINE_INCOMPLETE:
        return RESP_INCOMPLETE;
    case LINE_TOO_LONG:
        return bad(reader, "too big mbulk count string");
    case LINE_READ:
        break;
    }
    if (!decimal_parse(text, &expected) || expected > reader->limits->max_arguments)
        return bad(reader, "invalid multibulk length");
    if (reader->limits->unauthenticated && expected > UNAUTHENTICATED_MAX_ARGUMENTS)
        return bad(reader, "unauthenticated multibulk length");
    reader->request->expected = expected > 0 ? expected : 0;
    return RESP_REQUEST;
}

/* An argument of `bytes` bytes follows. */
static void expect_bulk(struct request_reader *reader, int64_t bytes)
{
    struct resp_request *request = reader->request;
    request->bulk_bytes = bytes;
    if ((size_t)bytes > reader->limits->max_argument_bytes ||
        request->request_bytes + (size_t)bytes > reader->limits->max_request_bytes)
        request->oversized = true;
}

#define SMALL_BULK_DIGITS 4u /* such sizes are within the limit of unauthenticated clients */

/* Reads the header of an argument of up to 9,999 bytes, such as "$42\r\n", which nearly all are;
 * false: it is something else, or incomplete. */
static bool read_small_bulk_header(struct request_reader *reader)
{
    struct resp_request *request = reader->request;
    const char *at = reader->bytes + request->at;
    size_t left = reader->size - request->at, digits = 0;
    int64_t bytes = 0;
    if (left < SMALL_BULK_DIGITS + 3 || at[0] != '$')
        return false;
    for (; digits < SMALL_BULK_DIGITS && at[1 + digits] >= '0' && at[1 + digits] <= '9'; digits++)
        bytes = bytes * 10 + (at[1 + digits] - '0');
    if (digits == 0 || at[1 + digits] != '\r' || (digits > 1 && at[1] == '0'))
        return false;
    expect_bulk(reader, bytes);
    request->at += digits + 3;
    return true;
}

static enum resp_outcome read_bulk_header(struct request_reader *reader)
{
    struct resp_request *request = reader->request;
    struct kv_slice text;
    int64_t bytes;
    char first = request->at < reader->size ? reader->bytes[request->at] : '$';
    switch (read_line(reader, &text)) {
    case LINE_INCOMPLETE:
        return RESP_INCOMPLETE;
    case LINE_TOO_LONG:
        return bad(reader, "too big bulk count string");
    case LINE_READ:
        break;
    }
    if (first != '$') {
        snprintf(reader->problem, RESP_PROBLEM_BYTES, "expected '$', got '%c'",
                 first == '\r' || first == '\n' ? ' ' : first);
        return RESP_BAD;
    }
    if (!decimal_parse(text, &bytes) || bytes < 0 || bytes > RESP_MAX_BULK_BYTES)
        return bad(reader, "invalid bulk length");
    if (reader->limits->unauthenticated && bytes > UNAUTHENTICATED_MAX_BULK_BYTES)
        return bad(reader, "unauthenticated bulk length");
    expect_bulk(reader, bytes);
    return RESP_REQUEST;
}

/* Reads an argument. The bytes of an oversized request are dropped as they come, so that they never
 * pile up. */
static enum resp_outcome read_bulk(struct request_reader *reader)
{
    struct resp_request *request = reader->request;
    size_t left = reader->size - request->at, bytes = (size_t)request->bulk_bytes;
    if (left < bytes + 2) {
        if (request->oversized && left > 2) {
            size_t passed = left - 2 < bytes ? left - 2 : bytes;
            request->at += passed;
            request->bulk_bytes -= (int64_t)passed;
        }
        return RESP_INCOMPLETE;
    }
    add_span(reader, request->at, bytes);
    request->at += bytes + 2;
    request->bulk_bytes = -1;
    return RESP_REQUEST;
}

static enum resp_outcome read_array(struct request_reader *reader)
{
    struct resp_request *request = reader->request;
    while ((int64_t)request->count < request->expected) {
        enum resp_outcome outcome = RESP_REQUEST;
        if (request->bulk_bytes < 0 && !read_small_bulk_header(reader))
            outcome = read_bulk_header(reader);
        if (outcome == RESP_REQUEST)
            outcome = read_bulk(reader);
        if (outcome != RESP_REQUEST)
            return outcome;
    }
    return finish_request(request);
}

/* Inline commands: words, "in quotes\n", 'or like this' ---------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static char escaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

/* A line that is unquoted in place: `in` reads, `out` writes and is never ahead of `in`. */
struct words {
    char *in, *out, *end;
};

/* Unquotes from behind the opening quote to behind the closing one. False: there is none, or no
 * blank follows it. */
static bool unquote(struct words *words, char quote)
{
    while (words->in < words->end) {
        char c = *words->in++;
        if (c == quote)
            return words->in == words->end || isspace((unsigned char)*words->in);
        if (c == '\\' && words->in < words->end) {
            ptrdiff_t left = words->end - words->in;
            if (quote == '"' && *words->in == 'x' && left >= 3 && hex_digit(words->in[1]) >= 0 &&
                hex_digit(words->in[2]) >= 0) {
                c = (char)(hex_digit(words->in[1]) * 16 + hex_digit(words->in[2]));
                words->in += 3;
            } else if (quote == '"') {
                c = escaped(*words->in++);
            } else if (*words->in == quote) {
                c = *words->in++;
            }
        }
        *words->out++ = c;
    }
    return false;
}

/* Reads one word that begins at `in`. */
static bool read_inline_word(struct words *words)
{
    while (words->in < words->end && !isspace((unsigned char)*words->in)) {
        char c = *words->in++;
        if (c != '"' && c != '\'')
            *words->out++ = c;
        else if (!unquote(words, c))
            return false;
    }
    return true;
}

static enum resp_outcome read_inline(struct request_reader *reader)
{
    struct resp_request *request = reader->request;
    char *start = reader->bytes + request->at;
    size_t left = reader->size - request->at;
    const char *newline = memchr(start, '\n', left);
    if (!newline)
        return left > RESP_MAX_LINE_BYTES ? bad(reader, "too big inline request") : RESP_INCOMPLETE;
    size_t size = (size_t)(newline - start);
    request->at += size + 1;
    if (size > 0 && start[size - 1] == '\r')
        size--;
    struct words words = {start, start, start + size};
    for (;;) {
        while (words.in < words.end && isspace((unsigned char)*words.in))
            words.in++;
        if (words.in == words.end)
            break;
        char *word = words.out;
        if (!read_inline_word(&words))
            return bad(reader, "unbalanced quotes in request");
        add_span(reader, (size_t)(word - reader->bytes), (size_t)(words.out - word));
    }
    return finish_request(reader->request);
}

enum resp_outcome resp_request_next(struct resp_request *request, struct byte_buffer *buffer,
                                    const struct resp_limits *limits,
                                    char problem[RESP_PROBLEM_BYTES])
{
    struct request_reader reader = {request, limits, buffer->data + buffer->start,
                                    byte_buffer_size(buffer), problem};
    if (!request->started)
        begin(request);
    for (;;) {
        enum resp_outcome outcome;
        if (request->given_out)
            begin(request);
        if (request->expected > 0)
            return read_array(&reader);
        if (request->at == reader.size)
            return RESP_INCOMPLETE;
        if (reader.bytes[request->at] == '*')
            outcome = read_small_array_header(&reader) ? RESP_REQUEST : read_array_header(&reader);
        else if ((outcome = read_inline(&reader)) == RESP_REQUEST && request->count > 0)
            return outcome;
        if (outcome != RESP_REQUEST)
            return outcome;
        /* An empty line, or an array of no elements, is passed over without an answer. */
        request->given_out = request->expected == 0;
    }
}

void resp_request_repeat(struct resp_request *request)
{
    request->given_out = false;
    request->expected = (int64_t)request->count;
}

void resp_request_release(struct resp_request *request, struct byte_buffer *buffer)
{
    size_t passed = request->given_out || request->oversized ? request->at : request->first;
    if (passed == 0)
        return;
    size_t spans = request->given_out || request->oversized ? 0 : request->count;
    for (size_t i = 0; i < spans; i++) {
        struct resp_span span;
        memcpy(&span, request->spans.data + i * sizeof span, sizeof span);
        span.offset -= passed;
        memcpy(request->spans.data + i * sizeof span, &span, sizeof span);
    }
    byte_buffer_consume(buffer, passed);
    request->at -= passed;
    request->first = 0;
}

size_t resp_request_missing(const struct resp_request *request, const struct byte_buffer *buffer)
{
    if (request->expected == 0 || request->bulk_bytes < 0 || request->oversized)
        return 0;
    size_t left = byte_buffer_size(buffer) - request->at, needed = (size_t)request->bulk_bytes + 2;
    return needed > left ? needed - left : 0;
}

void resp_request_shrink(struct resp_request *request)
{
    byte_buffer_free(&request->spans);
}

void resp_request_free(struct resp_request *request)
{
    byte_buffer_free(&request->spans);
}
