/*
 * json_reader: a small reader of JSON texts (RFC 8259) for what the server's `stats` sends. Any bytes are
 * read in bounded time, memory (a constant times their size) and depth. Names that are not fit to be
 * printed on a terminal are refused, unlike other texts.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_JSON_READER_H
#define MQKV_CLIENTK_PROGRAM_OPS_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* A value in the tree of its document. Names and texts are NUL-terminated; \u escapes above 7 bits
 * are kept as they were written, for these texts are only shown. */
struct json_value {
    enum json_kind kind;
    const char *name;         /* of a member of an object, else NULL */
    const char *text;         /* NUMBER, STRING, BOOL, NULL: as written, strings unescaped */
    double number;            /* NUMBER */
    struct json_value *first; /* ARRAY, OBJECT: their children */
    struct json_value *next;  /* the parent's next child */
};

/* The document, to be freed by json_free; NULL if the text is no JSON or memory is short. */
struct json_value *json_parse(const char *text, size_t size);
void json_free(struct json_value *document); /* NULL is harmless */

/* The member of an object; NULL if there is none, or if it is no object. */
const struct json_value *json_member(const struct json_value *object, const char *name);

#endif
