/*
 * covers: clientk/program/cli/json_reader.c common/text/json_scan.c
 *
 * The reader of JSON under libFuzzer: any bytes become a tree or nothing; the tree's nodes are no
 * more than the bytes, its depth is bounded, its names may be shown on a terminal, its texts end,
 * and members are found by their names.
 */
#include "tests/fuzz/fuzzing.h"

#include "clientk/program/cli/json_reader.h"
#include "common/text/escape.h"

#define DEEPEST 32

/* Returns the number of nodes. */
static size_t walk(const struct json_value *value, int depth)
{
    size_t nodes = 1;
    require(depth <= DEEPEST);
    bool scalar = value->kind != JSON_ARRAY && value->kind != JSON_OBJECT;
    require(!scalar || (value->text != NULL && value->first == NULL));
    for (const struct json_value *child = value->first; child; child = child->next) {
        require((child->name != NULL) == (value->kind == JSON_OBJECT));
        if (child->name) {
            require(escape_is_printable(kv_slice_from_string(child->name), false));
            const struct json_value *found = json_member(value, child->name);
            require(found != NULL && strcmp(found->name, child->name) == 0);
        }
        nodes += walk(child, depth + 1);
    }
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096) /* members are looked up one after the other */
        return 0;
    struct json_value *document = json_parse((const char *)data, size);
    if (document)
        require(walk(document, 1) <= size + 1);
    json_free(document);
    return 0;
}
