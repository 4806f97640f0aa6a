#include "kvstore/format/damaged_key.h"

#include <stdbool.h>
#include <stdio.h>

#include "kvstore/format/keyhash.h"
#include "kvstore/format/record.h"

struct kv_slice damaged_key_find(const struct damaged_file *file, const uint8_t *bytes,
                                 uint64_t size, uint64_t end_bytes)
{
    const struct kv_slice none = {0};
    struct record record;
    uint64_t size_bytes;
    if (size < RECORD_MAX_HEADER_BYTES ||
        record_parse(bytes, end_bytes, &record, &size_bytes) != RECORD_VALID)
        return none;
    uint64_t before = (uint64_t)((const uint8_t *)record.key.data - bytes);
    bool is_there = record.key.size > 0 && before + record.key.size <= size;
    return is_there && keyhash_file(file->seed, record.key, file->datafiles) == file->number
               ? record.key
               : none;
}

void damaged_key_describe(struct kv_slice key, char text[DAMAGED_KEY_TEXT_BYTES])
{
    bool is_long = key.size > DAMAGED_KEY_BYTES;
    char escaped[ESCAPE_MAX_BYTES(DAMAGED_KEY_BYTES)];
    text[0] = '\0';
    if (key.size == 0)
        return;
    *escape_to(escaped, kv_slice(key.data, is_long ? DAMAGED_KEY_BYTES : key.size)) = '\0';
    snprintf(text, DAMAGED_KEY_TEXT_BYTES, " (key \"%s\"%s)", escaped, is_long ? "..." : "");
}
