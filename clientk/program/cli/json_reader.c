#include "clientk/program/cli/json_reader.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"

#define DEEPEST 32

/* All of a document in two allocations: the nodes, and the texts. Each node follows a bracket or a
 * comma that no other node follows, and each kept text is at most as long as what it was read from
 * and has one NUL, so both are bounded by the size of the text. */
struct document {
    struct json_value root; /* first: json_free gets its address */
    struct json_value *nodes;
    size_t used_nodes;
    char *texts;
    char *texts_end;
    const char *at, *end;
    unsigned depth;
};

static bool read_value(struct document *document, struct json_value *value);

static void skip_blanks(struct document *document)
{
    while (document->at < document->end && strchr(" \t\r\n", *document->at) && *document->at)
        document->at++;
}

static bool take(struct document *document, char wanted)
{
    skip_blanks(document);
    if (document->at == document->end || *document->at != wanted)
        return false;
    document->at++;
    return true;
}

static const char *keep_text(struct document *document, const char *start, size_t size)
{
    char *kept = document->texts_end;
    memcpy(kept, start, size);
    kept[size] = '\0';
    document->texts_end += size + 1;
    return kept;
}

/* Writes the character that the escape at `at` stands for; returns how many bytes it took. */
static size_t read_escape(struct document *document, char *out, size_t *written)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *at = document->at;
    const char *found = at + 1 < document->end ? strchr(letters, at[1]) : NULL;
    *written = 1;
    if (found && *found) {
        *out = meanings[found - letters];
        return 2;
    }
    *out = '\\'; /* \uXXXX stays as it is */
    return 1;
}

/* A string whose opening quote was taken. NULL: it never ends. */
static const char *read_string(struct document *document)
{
    char *start = document->texts_end, *out = start;
    while (document->at < document->end && *document->at != '"') {
        size_t written = 1, taken = 1;
        if (*document->at == '\\')
            taken = read_escape(document, out, &written);
        else
            *out = *document->at ? *document->at : ' ';
        document->at += taken;
        out += written;
    }
    if (document->at == document->end)
        return NULL;
    document->at++;
    *out = '\0';
    document->texts_end = out + 1;
    return start;
}

static bool read_word(struct document *document, struct json_value *value)
{
    const char *start = document->at;
    while (document->at < document->end && *document->at && !strchr(",]} \t\r\n", *document->at))
        document->at++;
    size_t size = (size_t)(document->at - start);
    if (size == 0)
        return false;
    value->text = keep_text(document, start, size);
    if (strcmp(value->text, "null") == 0)
        value->kind = JSON_NULL;
    else if (strcmp(value->text, "true") == 0 || strcmp(value->text, "false") == 0)
        value->kind = JSON_BOOL;
    else {
        char *rest;
        value->kind = JSON_NUMBER;
        value->number = strtod(value->text, &rest);
        return *rest == '\0';
    }
    return true;
}

/* The name of a member. False: there is none, or it is not fit to be printed on a terminal, which
 * no statistics have. */
static bool read_name(struct document *document, struct json_value *member)
{
    if (!take(document, '"') || !(member->name = read_string(document)))
        return false;
    return escape_is_printable(kv_slice_from_string(member->name), false) && take(document, ':');
}

/* The members or elements up to `close`; the opening bracket was taken. */
static bool read_children(struct document *document, struct json_value *parent, char close)
{
    struct json_value **link = &parent->first;
    if (take(document, close))
        return true;
    do {
        struct json_value *child = &document->nodes[document->used_nodes++];
        *child = (struct json_value){0};
        if (close == '}' && !read_name(document, child))
            return false;
        if (!read_value(document, child))
            return false;
        *link = child;
        link = &child->next;
    } while (take(document, ','));
    return take(document, close);
}

static bool read_value(struct document *document, struct json_value *value)
{
    bool good;
    skip_blanks(document);
    if (document->at == document->end || document->depth == DEEPEST)
        return false;
    document->depth++;
    if (take(document, '{')) {
        value->kind = JSON_OBJECT;
        good = read_children(document, value, '}');
    } else if (take(document, '[')) {
        value->kind = JSON_ARRAY;
        good = read_children(document, value, ']');
    } else if (take(document, '"')) {
        value->kind = JSON_STRING;
        value->text = read_string(document);
        good = value->text != NULL;
    } else {
        good = read_word(document, value);
    }
    document->depth--;
    return good;
}

struct json_value *json_parse(const char *text, size_t size)
{
    struct document *document = calloc(1, sizeof *document);
    if (!document)
        return NULL;
    /* Each child follows a bracket or a comma of its own. */
    document->nodes = calloc(size + 1, sizeof *document->nodes);
    document->texts = malloc(size * 2 + 2);
    document->texts_end = document->texts;
    document->at = text;
    document->end = text + size;
    bool good = document->nodes && document->texts && read_value(document, &document->root);
    skip_blanks(document);
    if (good && document->at == document->end)
        return &document->root;
    json_free(&document->root);
    return NULL;
}

void json_free(struct json_value *root)
{
    if (!root)
        return;
    struct document *document = (struct document *)root;
    free(document->nodes);
    free(document->texts);
    free(document);
}

const struct json_value *json_member(const struct json_value *object, const char *name)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    for (const struct json_value *member = object->first; member; member = member->next)
        if (strcmp(member->name, name) == 0)
            return member;
    return NULL;
}
