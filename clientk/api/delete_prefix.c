/* clientk_delete_prefix: pages of keys, and a batch of deletes for each. */
#include "common/report/error.h"
#include "mqkv/clientk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/api/calls.h"
#include "clientk/base/client_settings.h"
#include "clientk/base/last_error.h"

/* How many keys are deleted together. */
#define PAGE_KEYS 256u

/* The keys of a page, copied: a visitor may keep no slice. */
struct doomed_keys {
    size_t count;
    size_t used_bytes, room_bytes;
    char *bytes;
    size_t sizes[PAGE_KEYS];
    bool no_memory;
};

/* A clientk_visit. */
static bool collect_key(void *context, const struct clientk_entry *entry)
{
    struct doomed_keys *keys = context;
    if (keys->count == PAGE_KEYS) /* the page is visited again */
        return false;
    size_t needed = keys->used_bytes + entry->key.size;
    if (needed > keys->room_bytes) {
        char *bytes = realloc(keys->bytes, 2 * needed);
        keys->no_memory = !bytes;
        if (!bytes)
            return false;
        keys->bytes = bytes;
        keys->room_bytes = 2 * needed;
    }
    memcpy(keys->bytes + keys->used_bytes, entry->key.data, entry->key.size);
    keys->used_bytes = needed;
    keys->sizes[keys->count++] = entry->key.size;
    return true;
}

/* Deletes the keys. It is no failure if somebody else has deleted one meanwhile. */
static enum kv_status delete_page_of_keys(struct clientk *client, const struct doomed_keys *keys,
                                          uint64_t *deleted)
{
    struct clientk_operation operations[PAGE_KEYS] = {0};
    struct clientk_result results[PAGE_KEYS] = {0};
    const char *at = keys->bytes;
    for (size_t i = 0; i < keys->count; i++) {
        operations[i].opcode = CLIENTK_DELETE;
        operations[i].key = kv_slice(at, keys->sizes[i]);
        at += keys->sizes[i];
    }
    enum kv_status status = clientk_execute(client, operations, keys->count, results);
    for (size_t i = 0; i < keys->count; i++) {
        *deleted += results[i].status == KV_OK;
        if (status == KV_OK && results[i].status != KV_OK && results[i].status != KV_NOT_FOUND)
            status = kv_error_set(last_error_of_thread(), results[i].status, "%s",
                                  kv_status_text(results[i].status));
        clientk_value_free(&results[i].value);
    }
    return status;
}

enum kv_status clientk_delete_prefix(struct clientk *client, struct kv_slice prefix,
                                     uint64_t *cursor, uint64_t *deleted)
{
    struct doomed_keys keys = {0};
    struct kv_error last_left_out = {0}; /* of a record that is damaged or cannot be read */
    uint64_t left_out = 0;
    uint64_t from_start = 0, unwanted = 0, before;
    enum kv_status status = KV_OK;
    if (!cursor)
        cursor = &from_start;
    if (!deleted)
        deleted = &unwanted;
    *deleted = 0;
    do {
        keys.count = keys.used_bytes = 0;
        before = *cursor;
        status = clientk_scan(client, prefix, true, cursor, PAGE_KEYS, collect_key, &keys);
        if ((status == KV_CORRUPT || status == KV_IO) && *cursor != before) {
            left_out++; /* the page ended at such a record */
            last_left_out = *last_error_of_thread();
            status = KV_OK;
        }
        if (keys.no_memory)
            status = kv_error_set(last_error_of_thread(), KV_NO_MEMORY, "no memory for the keys");
        if (status == KV_OK && keys.count > 0)
            status = delete_page_of_keys(client, &keys, deleted);
        if (status != KV_OK)
            *cursor = before;
    } while (status == KV_OK && *cursor != 0 && !client_settings_interrupted(&client->settings));
    free(keys.bytes);
    if (status != KV_OK || left_out == 0)
        return status;
    return kv_error_set(last_error_of_thread(), last_left_out.status,
                        "records that are damaged or cannot be read were left out: %" PRIu64
                        ", the last one in %.500s",
                        left_out, last_left_out.text);
}
