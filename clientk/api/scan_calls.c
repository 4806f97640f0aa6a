/* clientk_scan and clientk_scan_atomic: scans, page by page. */
#include "mqkv/clientk.h"

#include <inttypes.h>
#include <stdio.h>

#include "clientk/api/calls.h"
#include "clientk/api/threads.h"
#include "clientk/base/last_error.h"
#include "clientk/direct/direct_scan.h"
#include "clientk/message/translate.h"
#include "common/assert/assert.h"
#include "common/memory/cursor.h"
#include "common/report/error.h"
#include "wire/operation.h"

/* How many entries are asked for at once. */
#define PAGE_ENTRIES 1000u

struct scan_walk {
    clientk_visit visit;
    void *context;
    uint64_t limit; /* 0: none */
    uint64_t visited;
    bool stopped;      /* by the visitor */
    uint64_t until_ms; /* by when the scan must have advanced; 0: no page has come yet */
};

/* A clientk_visit. */
static bool visit_counted(void *context, const struct clientk_entry *entry)
{
    struct scan_walk *walk = context;
    walk->visited++;
    walk->stopped = !walk->visit(walk->context, entry);
    return !walk->stopped;
}

enum kv_status clientk_read_page(const struct clientk_value *page, clientk_visit visit,
                                 void *context)
{
    if (!page || !visit)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "NULL was given as the %s",
                            page ? "visitor" : "page");
    if (page->size == 0)
        return KV_OK;
    struct read_cursor cursor = read_cursor(page->data, page->size);
    while (read_cursor_left(&cursor) > 0) {
        struct wire_scan_entry from;
        if (wire_get_scan_entry(&cursor, &from) != KV_OK)
            return kv_error_set(last_error_of_thread(), KV_IO,
                                "the server's page of scan entries is malformed");
        struct clientk_entry entry = {.key = from.key,
                                      .value = from.value,
                                      .version = from.version,
                                      .expiry_ms = from.expiry_ms};
        if (!visit(context, &entry))
            return KV_OK;
    }
    return KV_OK;
}

/* The number of the data file is in the upper bits of a cursor, also of the one just before
 * `cursor`. */
#define CURSOR_FILE_SHIFT 52

/* Names the record at which the page was cut short. */
static enum kv_status explain_cut(const struct clientk_result *result)
{
    char file[32] = "the last data file";
    if (result->number != 0)
        snprintf(file, sizeof file, "data.%04u",
                 (unsigned)(((uint64_t)result->number - 1) >> CURSOR_FILE_SHIFT));
    return kv_error_set(last_error_of_thread(), result->status,
                        "%s: the record at offset %" PRIu64 " %s", file, result->value.version,
                        result->status == KV_CORRUPT ? "is damaged: its checksum does not hold"
                                                     : "cannot be read; the server's log says why");
}

/* One page. Its status is in *result too. */
static enum kv_status fetch_page(struct clientk *client, const struct clientk_operation *operation,
                                 struct clientk_result *result)
{
    enum kv_status status = client_check(client);
    if (status == KV_OK && direct_is_on(&client->direct)) {
        struct attachment *attachment = thread_attachment(client);
        if (attachment && direct_scan_page(&client->direct, &attachment->reader, operation->key,
                                           &operation->scan, result))
            return result->status;
    }
    struct task page;
    translate_operation(operation, &page.operation); /* it cannot fail */
    return client_execute_page(client, &page, result);
}

/* Returns true if nothing is left to be fetched. */
static bool scan_walk_is_over(const struct clientk_operation *operation,
                              const struct scan_walk *walk)
{
    return operation->scan.cursor == 0 || (walk->limit > 0 && walk->visited >= walk->limit);
}

/* Decides whether to fetch the next page. A server that has no time for the scan may give a page
 * without entries and with the same cursor (then the scan has not advanced): KV_OK, unless it has
 * done so for as long as a call may take. */
static enum kv_status scan_walk_may_continue(const struct clientk *client, struct scan_walk *walk,
                                             bool has_advanced)
{
    if (client_settings_interrupted(&client->settings))
        return kv_error_set(last_error_of_thread(), KV_TIMEOUT,
                            "interrupted before the end of the scan");
    if (has_advanced || walk->until_ms == 0)
        walk->until_ms = client_deadline_ms(client);
    else if (clock_monotonic_coarse_ms() >= walk->until_ms)
        return kv_error_set(last_error_of_thread(), KV_TIMEOUT,
                            "the server has not gone on with the scan in time");
    return KV_OK;
}

/* Visits pages from operation->scan.cursor on, which then is where to continue. */
static enum kv_status scan_pages(struct clientk *client, struct clientk_operation *operation,
                                 struct scan_walk *walk)
{
    struct clientk_result result = {.status = KV_OK};
    enum kv_status status;
    do {
        uint64_t cursor = operation->scan.cursor, visited = walk->visited;
        uint64_t left = walk->limit ? walk->limit - visited : PAGE_ENTRIES;
        KV_ASSERT(walk->limit == 0 || visited < walk->limit);
        operation->scan.limit = left < PAGE_ENTRIES ? (uint32_t)left : PAGE_ENTRIES;
        status = fetch_page(client, operation, &result);
        bool cut_short = result_is_cut_short(&result);
        if (status == KV_OK || cut_short)
            status = clientk_read_page(&result.value, visit_counted, walk);
        else if (status == KV_BAD_REQUEST && cursor != 0)
            kv_error_set(last_error_of_thread(), status,
                         "the cursor comes from no scan of this store: begin again");
        if (status != KV_OK || walk->stopped)
            break;
        operation->scan.cursor = (uint64_t)result.number;
        bool has_advanced = operation->scan.cursor != cursor || walk->visited != visited;
        if (cut_short)
            status = explain_cut(&result);
        else if (!scan_walk_is_over(operation, walk))
            status = scan_walk_may_continue(client, walk, has_advanced);
    } while (status == KV_OK && !scan_walk_is_over(operation, walk));
    clientk_value_free(&result.value);
    return status;
}

enum kv_status clientk_scan(struct clientk *client, struct kv_slice prefix, bool keys_only,
                            uint64_t *cursor, uint64_t limit, clientk_visit visit, void *context)
{
    if (!visit)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "NULL was given as the visitor");
    struct scan_walk walk = {.visit = visit, .context = context, .limit = limit};
    struct clientk_operation operation = {
        .opcode = CLIENTK_SCAN,
        .key = prefix,
        .scan = {.keys_only = keys_only, .cursor = cursor ? *cursor : 0}};
    enum kv_status status = scan_pages(client, &operation, &walk);
    if (cursor)
        *cursor = operation.scan.cursor;
    return status;
}

enum kv_status clientk_scan_atomic(struct clientk *client, struct kv_slice prefix, bool keys_only,
                                   clientk_visit visit, void *context)
{
    if (!visit)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "NULL was given as the visitor");
    struct scan_walk walk = {.visit = visit, .context = context};
    struct clientk_operation operation = {
        .opcode = CLIENTK_SCAN, .key = prefix, .scan = {.keys_only = keys_only, .atomic = true}};
    return scan_pages(client, &operation, &walk);
}
