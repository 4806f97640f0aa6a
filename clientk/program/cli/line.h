/*
 * line: one line of a batch file or of the prompt, or the arguments of one command, as words.
 *
 *   line    = { blanks } [ word { blanks word } ] { blanks } [ comment ]
 *   word    = bare | '"' { printable | escape } '"'
 *   comment = '#', where a word could begin, and the rest of the line
 *
 * A bare word is any run of bytes without blanks that does not begin with '"' or '#'; a backslash
 * in it is a backslash. Double quotes allow the escapes of common/text/escape.h (\" \\ \n \r \t \0
 * \xHH), so that any bytes can be written. Blanks are space and tab; a CR at the end of the line is
 * dropped.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_LINE_H
#define MQKV_CLIENTK_PROGRAM_CLI_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/slice.h"

/* Bytes followed by a NUL that size does not count. literal: the word was quoted (or follows "--"),
 * so it is neither an option nor "-" for standard input. */
struct word {
    char *data;
    size_t size;
    bool literal;
};

/* The words of one line at a time; reusable. Start from {0}. */
struct line {
    struct word *words;
    size_t count;
    size_t capacity;
    char *storage;
    size_t storage_capacity;
};

struct line_error {
    size_t column; /* of the wrong byte, counted from 1 */
    const char *message;
};

/* Replaces the words of *line by those of the text. False: *error says where and why, and the line
 * holds no words. */
bool line_parse(struct line *line, const char *text, size_t size, struct line_error *error);

/* Replaces the words of *line by the arguments, each one word. With `escapes` the escapes of
 * common/text/escape.h are decoded in each argument; error->column then is the argument's
 * number. */
bool line_from_arguments(struct line *line, char *const *arguments, size_t count, bool escapes,
                         struct line_error *error);

void line_free(struct line *line);

static inline struct kv_slice word_slice(const struct word *word)
{
    return kv_slice(word->data, word->size);
}

/* Returns true if the word is this text, letter case aside. */
bool word_is(const struct word *word, const char *text);

#endif
