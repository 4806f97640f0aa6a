/*
 * json_reader: a small JSON reader (RFC 8259) for the statistics of the server. It reads any bytes
 * in bounded time, memory (a constant times their size) and depth. It refuses names that a terminal
 * must not show, but no other texts.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_JSON_READER_H
#define MQKV_CLIENTK_PROGRAM_CLI_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* A value in the tree of its document. Names and texts are NUL-terminated; \u escapes are kept as
 * they were written, since these texts are only shown. */
struct json_value {
    enum json_kind kind;
    const char *name;         /* the name of a member of an object, else NULL */
    const char *text;         /* NUMBER, STRING, BOOL, NULL: as written, strings unescaped */
    double number;            /* NUMBER */
    struct json_value *first; /* ARRAY, OBJECT: their children */
    struct json_value *next;  /* the parent's next child */
};

/* Parses the text. Returns the document, which json_free frees; NULL: the text is not JSON, or
 * there is no memory. */
struct json_value *json_parse(const char *text, size_t size);
void json_free(struct json_value *document); /* NULL is harmless */

/* Returns the member of that name. NULL: there is none, or `object` is no object. */
const struct json_value *json_member(const struct json_value *object, const char *name);

#endif
