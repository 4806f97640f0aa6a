#include "serverk/execute/scan_page.h"

#include "common/assert/assert.h"

/* A scan looks at up to 64 entries for each that it may give (kvstore.h), some milliseconds for
 * SLICE_ENTRIES; then it is asked whether it may go on. */
#define DEFAULT_LIMIT 1000u
#define MAX_LIMIT     4096u
#define SLICE_ENTRIES 128u

uint32_t scan_page_limit(const struct wire_operation *operation)
{
    if (operation->limit == 0)
        return DEFAULT_LIMIT;
    return operation->limit < MAX_LIMIT ? operation->limit : MAX_LIMIT;
}

static struct wire_scan_entry page_entry(const struct scan_page *page,
                                         const struct kvstore_scanned *scanned)
{
    return (struct wire_scan_entry){.key = scanned->key,
                                    .value = page->keys_only ? kv_slice(NULL, 0) : scanned->value,
                                    .version = scanned->version,
                                    .expiry_ms = scanned->expiry_ms};
}

bool scan_page_add(void *context, const struct kvstore_scanned *scanned)
{
    struct scan_page *page = context;
    struct wire_scan_entry entry = page_entry(page, scanned);
    if (!access_may_read(page->reader, scanned->key))
        return true;
    if (wire_put_scan_entry(&page->cursor, &entry)) {
        page->entries++;
        return true;
    }
    page->refused_bytes = wire_scan_entry_size(&entry);
    return false;
}

bool scan_page_add_or_measure(void *context, const struct kvstore_scanned *scanned)
{
    struct scan_page *page = context;
    if (page->refused_bytes == 0) {
        scan_page_add(context, scanned);
    } else if (access_may_read(page->reader, scanned->key)) {
        struct wire_scan_entry entry = page_entry(page, scanned);
        page->refused_bytes += wire_scan_entry_size(&entry);
    }
    return true;
}

static bool is_page_empty(const struct scan_page *page)
{
    return write_cursor_used(&page->cursor) == 0;
}

/* Adds one whole data file, or nothing of it. */
static enum kv_status add_file(struct scan_page *page, struct kvstore *store,
                               struct kv_slice prefix)
{
    struct scan_page before = *page;
    enum kv_status status =
        kvstore_scan_file(store, &page->next, prefix, scan_page_add_or_measure, page);
    if (status == KV_OK && page->refused_bytes == 0)
        return KV_OK;
    size_t refused_bytes = page->refused_bytes + (size_t)(page->cursor.at - before.cursor.at);
    *page = before;
    page->refused_bytes = refused_bytes;
    return status == KV_OK ? KV_BUFFER_TOO_SMALL : status;
}

static enum kv_status add_files(struct scan_page *page, struct kvstore *store,
                                const struct wire_operation *operation, struct allowance *allowance)
{
    do {
        enum kv_status status = add_file(page, store, operation->key);
        if (status != KV_OK)
            return is_page_empty(page) ? status : KV_OK;
    } while (page->next != 0 && page->entries < scan_page_limit(operation) &&
             allowance_look(allowance) == KV_OK);
    return KV_OK;
}

static enum kv_status add_entries(struct scan_page *page, struct kvstore *store,
                                  const struct wire_operation *operation,
                                  struct allowance *allowance)
{
    uint32_t limit = scan_page_limit(operation);
    enum kv_status status;
    uint32_t slices = 0;
    struct kvstore_scan_result result;
    do {
        uint32_t left = limit - page->entries;
        KV_ASSERT(page->entries < limit);
        status =
            kvstore_scan(store, &page->next, operation->key,
                         left < SLICE_ENTRIES ? left : SLICE_ENTRIES, scan_page_add, page, &result);
    } while (status == KV_OK && page->next != 0 && page->refused_bytes == 0 &&
             page->entries < limit && ++slices <= 2 * limit / SLICE_ENTRIES &&
             allowance_look(allowance) == KV_OK);
    page->bad_offset = result.bad_offset;
    return status;
}

void scan_page_begin(struct scan_page *page, const struct wire_operation *operation,
                     struct access_user *reader, uint8_t *at, size_t capacity)
{
    *page = (struct scan_page){.cursor = write_cursor(at, capacity),
                               .reader = access_may_read(reader, operation->key) ? NULL : reader,
                               .keys_only = operation->flags & WIRE_KEYS_ONLY,
                               .next = operation->cursor};
}

enum kv_status scan_page_fill(struct scan_page *page, struct kvstore *store,
                              const struct wire_operation *operation, struct access_user *reader,
                              struct allowance *allowance, uint8_t *at, size_t capacity)
{
    scan_page_begin(page, operation, reader, at, capacity);
    if (operation->flags & WIRE_ATOMIC)
        return add_files(page, store, operation, allowance);
    enum kv_status status = add_entries(page, store, operation, allowance);
    if (status == KV_OK && page->refused_bytes > 0 && is_page_empty(page))
        return KV_BUFFER_TOO_SMALL;
    return status;
}
