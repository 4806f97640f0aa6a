/*
 * escape: bytes as printable text and back. Printable ASCII stands for itself; backslash, double
 * quote, \n, \r, \t, \0 have their C escapes; every other byte is \xHH. What escape_* writes,
 * unescape reads back to the same bytes.
 */
#ifndef MQKV_COMMON_TEXT_ESCAPE_H
#define MQKV_COMMON_TEXT_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "mqkv/slice.h"

/* The same to memory, which has ESCAPE_MAX_BYTES(bytes.size); returns their end. */
#define ESCAPE_MAX_BYTES(size) (4 * (size) + 4)
char *escape_to(char *out, struct kv_slice bytes);

/* Writes the escaped bytes to the stream, without quotes. Stops, as the next ones, at an error of
 * the stream, so that who is to end need not wait for each part of a long value. */
void escape_print(FILE *stream, struct kv_slice bytes);

/* Writes them in double quotes if they hold anything but letters, digits and -_./:@%+=, or are
 * empty; else bare: a form that the batch-line parser takes as one word. */
void escape_print_word(FILE *stream, struct kv_slice bytes);

/* Writes bytes as a JSON string, quotes included. Valid UTF-8 is kept, but for control characters
 * (C0, DEL and C1), which become \uHHHH: the same to a program, and nothing to a terminal. A byte
 * that is not part of valid UTF-8 becomes \u00HH. */
void escape_print_json(FILE *stream, struct kv_slice bytes);

/* Returns true if the bytes are well-formed UTF-8. */
bool escape_is_utf8(struct kv_slice bytes);

/* Returns true if they are well-formed UTF-8 without control characters, so that a terminal may
 * show them as they are; with `lines` newlines and tabs are allowed. */
bool escape_is_printable(struct kv_slice bytes, bool lines);

/* Writes text as it is if it is printable, else escaped: names of files, sentences of others. */
void escape_print_text(FILE *stream, const char *text);

/* Writes a JSON document of another's making: as it is, but for control characters other than
 * newline and tab, and bytes that are no UTF-8, which become \uHHHH. */
void escape_print_document(FILE *stream, struct kv_slice json);

/* Decodes the escapes of text (without quotes) in place of nothing: into out, which has at least
 * size bytes. Returns the number of bytes, or -1 if an escape is malformed (*error_at then is its
 * offset, where wanted). */
long unescape(const char *text, size_t size, char *out, size_t *error_at);

#endif
