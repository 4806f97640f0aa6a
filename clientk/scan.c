/* clientk_scan: a scan page by page. */
#include "clientk/clientk.h"

#include "clientk/client.h"
#include "clientk/last_error.h"
#include "common/cursor.h"
#include "wire/operation.h"

/* Entries asked for at once. */
#define PAGE_ENTRIES 1000u

struct scan {
    clientk_visit visit;
    void *context;
    uint64_t limit; /* 0: none */
    uint64_t visited;
    bool stopped; /* by the visitor */
};

static uint32_t page_limit(const struct scan *scan)
{
    uint64_t left = scan->limit ? scan->limit - scan->visited : PAGE_ENTRIES;
    return left < PAGE_ENTRIES ? (uint32_t)left : PAGE_ENTRIES;
}

static enum kv_status visit_page(struct scan *scan, const struct clientk_value *page)
{
    struct read_cursor cursor = read_cursor(page->data, page->size);
    while (read_cursor_left(&cursor) > 0) {
        struct wire_scan_entry from;
        enum kv_status status = wire_get_scan_entry(&cursor, &from);
        if (status != KV_OK)
            return kv_error_set(last_error_of_thread(), KV_IO,
                                "the server's page of scan entries is malformed");
        struct clientk_entry entry = {.key = from.key,
                                      .value = from.value,
                                      .version = from.version,
                                      .expiry_ms = from.expiry_ms};
        scan->visited++;
        if (!scan->visit(scan->context, &entry)) {
            scan->stopped = true;
            return KV_OK;
        }
    }
    return KV_OK;
}

enum kv_status clientk_scan(struct clientk *client, struct kv_slice prefix, bool keys_only,
                            uint64_t *cursor, uint64_t limit, clientk_visit visit, void *context)
{
    if (!visit)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "NULL was given as the visitor");
    struct scan scan = {.visit = visit, .context = context, .limit = limit};
    struct wire_operation operation = {.opcode = WIRE_OP_SCAN,
                                       .flags = keys_only ? WIRE_KEYS_ONLY : 0,
                                       .key = prefix,
                                       .cursor = cursor ? *cursor : 0};
    struct clientk_result result = {.status = KV_OK};
    enum kv_status status;
    do {
        operation.limit = page_limit(&scan);
        status = client_execute_special(client, &operation, &result);
        if (status == KV_OK)
            status = visit_page(&scan, &result.value);
        if (status != KV_OK || scan.stopped)
            break;
        operation.cursor = (uint64_t)result.number;
    } while (operation.cursor != 0 && (limit == 0 || scan.visited < limit));
    if (cursor)
        *cursor = operation.cursor;
    clientk_value_free(&result.value);
    return status;
}
