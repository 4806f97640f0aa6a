#include "bridges/cluster/mirror/mirror_refill.h"

#include <stdlib.h>
#include <string.h>

#include "common/report/log.h"
#include "bridges/cluster/mirror/bucket_scan.h"

/* What the store has --------------------------------------------------------------------------- */

struct filling {
    struct copy_page *page;
    unsigned added;
    bool refused;
};

static bool add_to_page(void *context, const struct kvstore_scanned *entry)
{
    struct filling *filling = context;
    filling->refused =
        !copy_page_add(filling->page, entry->key, &entry->value, entry->expiry_ms, false);
    filling->added += !filling->refused;
    return !filling->refused;
}

/* Fills the page from the store. If a data file loses bytes during the scan, an entry in the page
 * may have zeros for a value: then the page is filled again, which finds the record damaged. */
static enum kv_status fill_page(struct kvstore *store, struct copy_page *page, uint64_t *cursor,
                                struct filling *filling)
{
    uint64_t from = *cursor;
    struct kvstore_scan_result result;
    enum kv_status status;
    do {
        copy_page_clear(page);
        *cursor = from;
        *filling = (struct filling){.page = page};
        status = kvstore_scan(store, cursor, kv_slice(NULL, 0), COPY_PAGE_ITEMS, add_to_page,
                              filling, &result);
    } while (status == KV_IO && result.bad_offset == 0);
    return status;
}

static enum kv_status put_all(struct kvstore *store, struct store_engine *engine,
                              struct copy_page *page, const atomic_bool *stop)
{
    uint64_t cursor = 0;
    do {
        struct filling filling;
        enum kv_status status = fill_page(store, page, &cursor, &filling);
        if (status == KV_CORRUPT || status == KV_IO)
            log_error("mirror: an entry of the store cannot be read (%s): the copy is without it; "
                      "stop the daemon, then kvcheck tells which",
                      kv_status_text(status));
        else if (status != KV_OK)
            return status;
        if (filling.refused && filling.added == 0) /* an empty page has room */
            return KV_NO_MEMORY;
        if (copy_page_send(page, engine) != KV_OK || atomic_load(stop))
            return KV_BUSY;
    } while (cursor != 0);
    return KV_OK;
}

/* What it does not have ------------------------------------------------------------------------ */

/* The keys of a page of the bucket, one behind the other. */
struct key_list {
    uint8_t *bytes;
    size_t used, capacity;
    bool failed; /* out of memory */
};

static bool take_key(void *context, const struct kvstore_scanned *entry)
{
    struct key_list *list = context;
    size_t needed = list->used + sizeof(uint32_t) + entry->key.size;
    if (needed > list->capacity) {
        size_t capacity = 2 * needed + 4096;
        uint8_t *bytes = realloc(list->bytes, capacity);
        if (!bytes) {
            list->failed = true;
            return false;
        }
        list->bytes = bytes;
        list->capacity = capacity;
    }
    uint32_t size = (uint32_t)entry->key.size;
    memcpy(list->bytes + list->used, &size, sizeof size);
    memcpy(list->bytes + list->used + sizeof size, entry->key.data, size);
    list->used = needed;
    return true;
}

static enum kv_status delete_unknown(struct kvstore *store, struct store_engine *engine,
                                     struct copy_page *page, const struct key_list *list)
{
    for (size_t at = 0; at < list->used;) {
        uint32_t size;
        struct kvstore_entry entry;
        memcpy(&size, list->bytes + at, sizeof size);
        struct kv_slice key = kv_slice(list->bytes + at + sizeof size, size);
        at += sizeof size + size;
        if (kvstore_get(store, key, NULL, 0, &entry) != KV_NOT_FOUND)
            continue;
        if (!copy_page_add(page, key, NULL, 0, false) &&
            (copy_page_send(page, engine) != KV_OK || !copy_page_add(page, key, NULL, 0, false)))
            return KV_BUSY;
    }
    return copy_page_send(page, engine);
}

static enum kv_status delete_others(struct kvstore *store, struct store_engine *engine,
                                    struct copy_page *page, const atomic_bool *stop)
{
    struct key_list list = {0};
    struct bucket_scan scan = {.keys_only = true, .visit = take_key, .context = &list};
    enum kv_status status;
    do {
        list.used = 0;
        status = bucket_scan_page(engine, &scan);
        if (status == KV_OK && list.failed)
            status = KV_NO_MEMORY;
        if (status == KV_OK)
            status = delete_unknown(store, engine, page, &list);
        if (status == KV_OK && atomic_load(stop))
            status = KV_BUSY;
    } while (status == KV_OK && scan.cursor != 0);
    free(list.bytes);
    return status;
}

enum kv_status mirror_refill(struct kvstore *store, struct store_engine *engine,
                             struct copy_page *page, const atomic_bool *stop)
{
    enum kv_status status = put_all(store, engine, page, stop);
    return status == KV_OK ? delete_others(store, engine, page, stop) : status;
}
