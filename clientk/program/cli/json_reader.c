#include "clientk/program/cli/json_reader.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"
#include "common/text/json_scan.h"

/* A document is in two allocations: the nodes, and the texts. Each node follows a bracket or a
 * comma that no other node follows, and each kept text is at most as long as what it was read from
 * and has one NUL, so both are bounded by the size of the text. */
struct document {
    struct json_value root; /* is the first member, since json_free gets its address */
    struct json_value *nodes;
    size_t used_nodes;
    char *texts;
    char *texts_end;
};

static bool read_json_value(struct document *document, struct kv_slice text, unsigned depth,
                            struct json_value *value);

/* Keeps the text of a string, given what stands between its quotes; \uXXXX stays as it is. */
static const char *keep_string(struct document *document, struct kv_slice quoted)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char *start = document->texts_end, *out = start;
    const char *at = quoted.data, *end = at + quoted.size;
    for (; at < end; at++) {
        const char *letter = *at == '\\' && at + 1 < end && at[1] ? strchr(letters, at[1]) : NULL;
        if (letter)
            at++;
        *out++ = letter ? meanings[letter - letters] : *at ? *at : ' ';
    }
    *out = '\0';
    document->texts_end = out + 1;
    return start;
}

static bool read_json_word(struct document *document, struct kv_slice text,
                           struct json_value *value)
{
    char *rest;
    char *kept = document->texts_end;
    memcpy(kept, text.data, text.size);
    kept[text.size] = '\0';
    document->texts_end += text.size + 1;
    value->text = kept;
    if (strcmp(value->text, "null") == 0) {
        value->kind = JSON_NULL;
    } else if (strcmp(value->text, "true") == 0 || strcmp(value->text, "false") == 0) {
        value->kind = JSON_BOOL;
    } else {
        value->kind = JSON_NUMBER;
        value->number = strtod(value->text, &rest);
        return text.size > 0 && rest == value->text + text.size;
    }
    return strlen(value->text) == text.size;
}

/* Reads the members or elements. Refuses a name that is not fit to be printed on a terminal; no
 * statistics have one. */
static bool read_children(struct document *document, struct kv_slice text, unsigned depth,
                          struct json_value *parent)
{
    bool is_object = parent->kind == JSON_OBJECT;
    char close = is_object ? '}' : ']';
    struct json_value **link = &parent->first;
    struct json_scan scan = json_scan(text);
    struct kv_slice name, value;
    json_scan_take(&scan, is_object ? '{' : '[');
    if (json_scan_take(&scan, close))
        return json_scan_is_over(&scan);
    do {
        struct json_value *child = &document->nodes[document->used_nodes++];
        *child = (struct json_value){0};
        if (is_object) {
            if (!json_scan_name(&scan, &name))
                return false;
            child->name = keep_string(document, name);
            if (!escape_is_printable(kv_slice_from_string(child->name), false))
                return false;
        }
        if (!json_scan_value(&scan, &value) || !read_json_value(document, value, depth + 1, child))
            return false;
        *link = child;
        link = &child->next;
    } while (json_scan_take(&scan, ','));
    return json_scan_take(&scan, close) && json_scan_is_over(&scan);
}

static bool read_json_value(struct document *document, struct kv_slice text, unsigned depth,
                            struct json_value *value)
{
    const char *bytes = text.data;
    if (text.size == 0 || depth > JSON_SCAN_DEEPEST)
        return false;
    switch (bytes[0]) {
    case '{':
    case '[':
        value->kind = bytes[0] == '{' ? JSON_OBJECT : JSON_ARRAY;
        return read_children(document, text, depth, value);
    case '"':
        value->kind = JSON_STRING;
        value->text = keep_string(document, kv_slice(bytes + 1, text.size - 2));
        return true;
    default:
        return read_json_word(document, text, value);
    }
}

struct json_value *json_parse(const char *text, size_t size)
{
    struct document *document = calloc(1, sizeof *document);
    struct json_scan scan = json_scan(kv_slice(text, size));
    struct kv_slice root;
    if (!document)
        return NULL;
    document->nodes = calloc(size + 1, sizeof *document->nodes);
    document->texts = malloc(size * 2 + 2);
    document->texts_end = document->texts;
    if (document->nodes && document->texts && json_scan_value(&scan, &root) &&
        json_scan_is_over(&scan) && read_json_value(document, root, 1, &document->root))
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
