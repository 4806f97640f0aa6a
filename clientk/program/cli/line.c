#include "clientk/program/cli/line.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/text/escape.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool fail_line(struct line *line, struct line_error *error, size_t offset,
                      const char *message)
{
    line->count = 0;
    error->column = offset + 1;
    error->message = message;
    return false;
}

static bool reserve_storage(struct line *line, size_t size)
{
    if (size <= line->storage_capacity)
        return true;
    char *storage = realloc(line->storage, size);
    if (!storage)
        return false;
    line->storage = storage;
    line->storage_capacity = size;
    return true;
}

static bool add_line_word(struct line *line, struct word word)
{
    if (line->count == line->capacity) {
        size_t capacity = line->capacity ? line->capacity * 2 : 8;
        struct word *words = realloc(line->words, capacity * sizeof *words);
        if (!words)
            return false;
        line->words = words;
        line->capacity = capacity;
    }
    line->words[line->count++] = word;
    return true;
}

/* The offset just after the bare word that begins at `at`. */
static size_t bare_word_end(const char *text, size_t size, size_t at)
{
    while (at < size && !is_blank(text[at]))
        at++;
    return at;
}

/* The offset of the quote that closes the one before `at`; size if there is none. */
static size_t closing_quote(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < size ? at : size;
}

/* Takes the word at *at into `storage`, which has room for its bytes and a NUL. Returns NULL, or
 * what is wrong with the word at offset *at. */
static const char *take_line_word(const char *text, size_t size, size_t *at, char *storage,
                                  struct word *word)
{
    *word = (struct word){storage, 0, text[*at] == '"'};
    if (!word->literal) {
        size_t end = bare_word_end(text, size, *at);
        word->size = end - *at;
        memcpy(storage, text + *at, word->size);
        *at = end;
    } else {
        size_t start = *at + 1, end = closing_quote(text, size, start), bad = 0;
        if (end == size)
            return "this quote is never closed";
        long decoded = unescape(text + start, end - start, storage, &bad);
        if (decoded < 0) {
            *at = start + bad;
            return "unknown escape (known: \\\\ \\\" \\n \\r \\t \\0 \\xHH)";
        }
        word->size = (size_t)decoded;
        *at = end + 1;
        if (*at < size && !is_blank(text[*at]))
            return "a blank must follow a closing quote";
    }
    storage[word->size] = '\0';
    return NULL;
}

bool line_parse(struct line *line, const char *text, size_t size, struct line_error *error)
{
    line->count = 0;
    if (size > 0 && text[size - 1] == '\r')
        size--;
    /* A blank or the end of the text follows each word; the word's NUL takes the place of that
     * byte. */
    if (!reserve_storage(line, size + 1))
        return fail_line(line, error, 0, "not enough memory for the line");

    char *storage = line->storage;
    for (size_t at = 0;;) {
        while (at < size && is_blank(text[at]))
            at++;
        if (at == size || text[at] == '#')
            return true;
        struct word word;
        const char *wrong = take_line_word(text, size, &at, storage, &word);
        if (wrong)
            return fail_line(line, error, at, wrong);
        if (!add_line_word(line, word))
            return fail_line(line, error, at, "not enough memory for the words");
        storage += word.size + 1;
    }
}

bool line_from_arguments(struct line *line, char *const *arguments, size_t count, bool escapes,
                         struct line_error *error)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(arguments[i]) + 1;
    line->count = 0;
    if (!reserve_storage(line, bytes + 1))
        return fail_line(line, error, 0, "not enough memory for the arguments");

    char *storage = line->storage;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(arguments[i]);
        struct word word = {storage, size, false};
        if (escapes) {
            long decoded = unescape(arguments[i], size, storage, NULL);
            if (decoded < 0)
                return fail_line(line, error, i,
                                 "unknown escape (known: \\\\ \\\" \\n \\r \\t \\0 \\xHH)");
            word.size = (size_t)decoded;
        } else {
            memcpy(storage, arguments[i], size);
        }
        storage[word.size] = '\0';
        if (!add_line_word(line, word))
            return fail_line(line, error, i, "not enough memory for the arguments");
        storage += word.size + 1;
    }
    return true;
}

void line_free(struct line *line)
{
    free(line->words);
    free(line->storage);
    *line = (struct line){0};
}

bool word_is(const struct word *word, const char *text)
{
    return strlen(text) == word->size && strncasecmp(word->data, text, word->size) == 0;
}
