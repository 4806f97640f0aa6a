#include "clientk/program/commands/transact_block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/report/error.h"
#include "common/text/escape.h"

/* Returns whether the first word of the line is that one, letter case aside. */
static bool first_word_is(const char *text, size_t size, const char *word)
{
    size_t length = strlen(word), at = 0;
    while (at < size && (text[at] == ' ' || text[at] == '\t'))
        at++;
    if (size - at < length || strncasecmp(text + at, word, length) != 0)
        return false;
    at += length;
    return at == size || memchr(" \t\r\n", text[at], 4);
}

bool transact_block_begins(const char *text, size_t size)
{
    return first_word_is(text, size, "begin");
}

bool transact_block_ends(const char *text, size_t size)
{
    return first_word_is(text, size, "commit") || first_word_is(text, size, "abort");
}

/* Writes the words as line_parse reads them, from `first` on. Those behind "--" are operands,
 * whatever they look like. */
static void write_words(FILE *stream, const struct line *line, size_t first)
{
    bool options_end = false;
    for (size_t i = first; i < line->count; i++) {
        const struct word *word = &line->words[i];
        bool ends_options = !word->literal && !options_end && strcmp(word->data, "--") == 0;
        if (ends_options) {
            options_end = true;
            continue;
        }
        fputc(' ', stream);
        if (word->literal || options_end)
            fputc('"', stream);
        if (word->literal || options_end)
            escape_print(stream, word_slice(word));
        else
            escape_print_word(stream, word_slice(word));
        if (word->literal || options_end)
            fputc('"', stream);
    }
}

struct block_reader {
    FILE *stream; /* the command */
    struct line words;
    size_t number; /* of the line */
    bool in_else;
    bool separated; /* --else stands already where the next step begins */
    bool ended, aborted;
};

static enum kv_status refuse_line(const struct block_reader *reader, const char *why,
                                  struct kv_error *error)
{
    return kv_error_set(error, KV_USAGE, "line %zu of the transaction: %s; nothing changed",
                        reader->number, why);
}

static bool stands_alone(const struct line *words)
{
    return words->count == 1;
}

static enum kv_status read_block_line(struct block_reader *reader, struct kv_error *error)
{
    const struct line *words = &reader->words;
    if (words->count == 0) /* a comment */
        return KV_OK;
    const struct word *first = &words->words[0];
    if (reader->number == 1) {
        fputs("transact", reader->stream);
        write_words(reader->stream, words, 1);
        return KV_OK;
    }
    bool is_end = word_is(first, "commit") || word_is(first, "abort");
    if ((is_end || word_is(first, "else")) && !stands_alone(words))
        return refuse_line(reader, "else, commit and abort stand alone", error);
    if (is_end) {
        reader->ended = true;
        reader->aborted = word_is(first, "abort");
    } else if (word_is(first, "else")) {
        if (reader->in_else)
            return refuse_line(reader, "else stands twice", error);
        reader->in_else = reader->separated = true;
        fputs(" --else", reader->stream);
    } else if (word_is(first, "begin")) {
        return refuse_line(reader, "another begin before the commit", error);
    } else {
        fputs(reader->separated ? "" : " --", reader->stream);
        reader->separated = false;
        write_words(reader->stream, words, 0);
    }
    return KV_OK;
}

static enum kv_status read_block(struct block_reader *reader, const char *text, size_t size,
                                 struct kv_error *error)
{
    for (size_t at = 0; at <= size && !reader->ended;) {
        const char *newline = at < size ? memchr(text + at, '\n', size - at) : NULL;
        size_t end = newline ? (size_t)(newline - text) : size;
        struct line_error wrong;
        reader->number++;
        if (!line_parse(&reader->words, text + at, end - at, &wrong)) {
            char why[160];
            snprintf(why, sizeof why, "column %zu: %s", wrong.column, wrong.message);
            return refuse_line(reader, why, error);
        }
        enum kv_status status = read_block_line(reader, error);
        if (status != KV_OK)
            return status;
        at = end + 1;
    }
    return reader->ended ? KV_OK
                         : kv_error_set(error, KV_USAGE,
                                        "the transaction does not end: commit, or abort, comes "
                                        "behind its steps; nothing changed");
}

enum kv_status transact_block_parse(struct line *line, const char *text, size_t size,
                                    struct kv_error *error)
{
    char *command = NULL;
    size_t command_bytes = 0;
    struct block_reader reader = {.stream = open_memstream(&command, &command_bytes)};
    if (!reader.stream)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for the transaction");
    enum kv_status status = read_block(&reader, text, size, error);
    line_free(&reader.words);
    if (reader.in_else && reader.separated && status == KV_OK && !reader.aborted)
        status = kv_error_set(error, KV_USAGE, "no steps stand behind else; nothing changed");
    struct line_error wrong;
    if (fclose(reader.stream) != 0 && status == KV_OK)
        status = kv_error_set(error, KV_NO_MEMORY, "no memory for the transaction");
    if (status == KV_OK && !line_parse(line, command, reader.aborted ? 0 : command_bytes, &wrong))
        status = kv_error_set(error, KV_USAGE, "%s", wrong.message);
    free(command);
    return status;
}

int transact_block_run(struct cli_context *context, const void *options,
                       const struct word *operands, size_t count)
{
    (void)options;
    (void)operands;
    (void)count;
    return output_failure(&context->output, NULL, KV_USAGE,
                          "no transaction has begun: begin comes before its steps");
}
