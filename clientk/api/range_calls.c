/* Ranges of keys in their order: cursors, counts, deletions. */
#include "mqkv/clientk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/api/calls.h"
#include "clientk/api/threads.h"
#include "clientk/base/client_settings.h"
#include "clientk/base/last_error.h"
#include "clientk/direct/direct_range.h"
#include "clientk/message/translate.h"
#include "common/assert/assert.h"
#include "common/memory/copy.h"
#include "common/memory/reserved.h"
#include "common/report/error.h"
#include "wire/range_value.h"

#define RANGE_PAGE_ENTRIES     1000u
#define RANGE_MAX_PAGE_ENTRIES 4096u

/* Between two questions to a server that is still building the order. */
#define ORDER_PAUSE_MS 20u

/* A range on its way: what is left of it. */
struct range_rest {
    struct clientk *client;
    struct kv_slice from, to, prefix;
    bool behind_from, reverse, no_wait;
    uint8_t *bytes; /* the keys as they were given */
    uint8_t *place; /* the key behind which it goes on, for from or to */
    size_t place_room;
    uint8_t *body; /* of the next request */
    size_t body_room;
};

/* Makes room for `size` bytes in *bytes, of which there are *room. */
static bool reserve_bytes(uint8_t **bytes, size_t *room, size_t size)
{
    if (*bytes && size <= *room)
        return true;
    uint8_t *larger = realloc(*bytes, 2 * size + 1);
    if (!larger)
        return false;
    *bytes = larger;
    *room = 2 * size + 1;
    return true;
}

static enum kv_status range_lacks_memory(void)
{
    return kv_error_set(last_error_of_thread(), KV_NO_MEMORY, "no memory for a range");
}

static enum kv_status refuse_range(enum kv_status status, const char *sentence)
{
    return kv_error_set(last_error_of_thread(), status, "%s", sentence);
}

static enum kv_status check_range(const struct clientk *client, const struct clientk_range *range)
{
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    if (!range)
        return refuse_range(KV_USAGE, "NULL was given as the range");
    if (!RESERVED_IS_CLEAR(range->reserved))
        return refuse_range(KV_UNSUPPORTED, "reserved: " RESERVED_ADVICE);
    if (range->from.size > WIRE_MAX_KEY_BYTES || range->to.size > WIRE_MAX_KEY_BYTES ||
        range->prefix.size > WIRE_MAX_KEY_BYTES)
        return refuse_range(KV_BAD_KEY, "a bound of the range is longer than any key");
    if (range->page > RANGE_MAX_PAGE_ENTRIES)
        return refuse_range(KV_USAGE, "a page has at most 4,096 entries");
    if (range->atomic && range->limit > 0)
        return refuse_range(KV_USAGE, "a range of one moment has no limit");
    return KV_OK;
}

static struct kv_slice keep_bound(uint8_t **at, struct kv_slice key)
{
    copy_bytes(*at, key.data, key.size);
    *at += key.size;
    return kv_slice(*at - key.size, key.size);
}

/* To be freed with range_rest_free, whatever comes of it. */
static enum kv_status range_rest_init(struct range_rest *rest, struct clientk *client,
                                      const struct clientk_range *range)
{
    *rest = (struct range_rest){.client = client};
    enum kv_status status = check_range(client, range);
    if (status != KV_OK)
        return status;
    uint8_t *at = rest->bytes = malloc(range->from.size + range->to.size + range->prefix.size + 1);
    if (!at)
        return range_lacks_memory();
    rest->from = keep_bound(&at, range->from);
    rest->to = keep_bound(&at, range->to);
    rest->prefix = keep_bound(&at, range->prefix);
    rest->behind_from = range->behind_from;
    rest->reverse = range->reverse;
    rest->no_wait = range->no_wait;
    return KV_OK;
}

static void range_rest_free(struct range_rest *rest)
{
    free(rest->bytes);
    free(rest->place);
    free(rest->body);
}

/* What was up to the key is done. */
static enum kv_status range_rest_cut(struct range_rest *rest, struct kv_slice key)
{
    if (!reserve_bytes(&rest->place, &rest->place_room, key.size))
        return range_lacks_memory();
    if (key.data)
        memcpy(rest->place, key.data, key.size);
    if (rest->reverse) {
        rest->to = kv_slice(rest->place, key.size);
    } else {
        rest->from = kv_slice(rest->place, key.size);
        rest->behind_from = true;
    }
    return KV_OK;
}

/* Says why, as the server has, or where something was left out. */
static enum kv_status explain_range(struct clientk *client, const struct clientk_result *result)
{
    struct kv_error *error = last_error_of_thread();
    const struct clientk_value *value = &result->value;
    enum kv_status status = result->status;
    if (result_is_cut_short(result))
        return kv_error_set(error, status,
                            "data.%04u: the record at offset %" PRIu64 " %s: it was left out",
                            wire_range_file(result->number), value->version,
                            status == KV_CORRUPT ? "is damaged" : "cannot be read");
    if ((status == KV_UNSUPPORTED || status == KV_BUSY) && value->data && value->size > 0)
        return kv_error_set(error, status, "%.*s", (int)(value->size < 400 ? value->size : 400),
                            (const char *)value->data);
    if (status == KV_UNSUPPORTED && client_server_is_too_old(client))
        return kv_error_set(error, status, "the server is too old for ranges");
    return status;
}

/* Returns KV_OK after a pause, or the status that ends the wait for a server that builds its
 * order. */
static enum kv_status wait_for_order(const struct clientk *client, uint64_t until_ms)
{
    if (clock_monotonic_coarse_ms() + ORDER_PAUSE_MS >= until_ms ||
        client_settings_interrupted(&client->settings))
        return KV_BUSY;
    clock_sleep_ms(ORDER_PAUSE_MS);
    return KV_OK;
}

/* Asks the server for `limit` entries of what is left. KV_OK: there is an answer; after KV_CORRUPT
 * and KV_IO, too, if result_is_cut_short. */
static enum kv_status range_rest_ask(struct range_rest *rest, enum wire_opcode opcode,
                                     unsigned flags, uint32_t limit, struct clientk_result *result)
{
    const struct wire_range_bounds bounds = {
        .limit = limit,
        .way = (uint16_t)((rest->reverse ? WIRE_RANGE_REVERSE : 0u) |
                          (rest->behind_from ? WIRE_RANGE_BEHIND : 0u)),
        .to = rest->to,
        .prefix = rest->prefix};
    size_t size = wire_range_bounds_size(&bounds);
    if (!reserve_bytes(&rest->body, &rest->body_room, size))
        return range_lacks_memory();
    struct write_cursor cursor = write_cursor(rest->body, size);
    bool written = wire_put_range_bounds(&cursor, &bounds);
    KV_ASSERT(written);
    uint64_t until_ms = client_deadline_ms(rest->client);
    enum kv_status status;
    do {
        struct task task;
        task.operation.opcode = opcode;
        task.operation.flags = (uint16_t)flags;
        task.operation.key = rest->from;
        task.operation.value = kv_slice(rest->body, size);
        status = opcode == WIRE_OP_RANGE ? client_execute_page(rest->client, &task, result)
                                         : client_execute_one(rest->client, &task, result);
    } while (status == KV_BUSY && !rest->no_wait &&
             wait_for_order(rest->client, until_ms) == KV_OK);
    return status == KV_OK ? KV_OK : explain_range(rest->client, result);
}

/* Cursors ----------------------------------------------------------------------------------- */

struct clientk_cursor {
    struct range_rest rest;
    unsigned flags;
    uint32_t page_entries;
    bool limited;
    uint64_t left;              /* of the limit */
    struct clientk_result page; /* the answer that is being given */
    struct read_cursor entries; /* of the page, those that are left */
    struct kv_slice last;       /* the key before them */
    bool more;                  /* there may be other pages */
    struct kv_error left_out;   /* to be told behind the page */
};

enum kv_status clientk_cursor_open(struct clientk *client, const struct clientk_range *range,
                                   struct clientk_cursor **cursor)
{
    if (!cursor)
        return refuse_range(KV_USAGE, "NULL was given as the cursor");
    *cursor = NULL;
    struct clientk_cursor *created = calloc(1, sizeof *created);
    if (!created)
        return range_lacks_memory();
    enum kv_status status = range_rest_init(&created->rest, client, range);
    if (status != KV_OK) {
        clientk_cursor_close(created);
        return status;
    }
    created->flags = (range->keys_only ? WIRE_KEYS_ONLY : 0u) | (range->atomic ? WIRE_ATOMIC : 0u);
    created->page_entries = range->page > 0 ? range->page : RANGE_PAGE_ENTRIES;
    created->limited = range->limit > 0;
    created->left = range->limit;
    created->more = true;
    *cursor = created;
    return KV_OK;
}

void clientk_cursor_close(struct clientk_cursor *cursor)
{
    if (!cursor)
        return;
    range_rest_free(&cursor->rest);
    clientk_value_free(&cursor->page.value);
    free(cursor);
}

/* Reads the page without a message. False: it has to go by message. */
static bool range_page_in_place(struct clientk_cursor *cursor, uint32_t limit)
{
    const struct range_rest *rest = &cursor->rest;
    struct direct *direct = &rest->client->direct;
    if ((cursor->flags & WIRE_ATOMIC) != 0 || !direct_is_on(direct))
        return false;
    struct attachment *attachment = thread_attachment(rest->client);
    const struct direct_range range = {.from = rest->from,
                                       .to = rest->to,
                                       .prefix = rest->prefix,
                                       .behind_from = rest->behind_from,
                                       .reverse = rest->reverse,
                                       .keys_only = (cursor->flags & WIRE_KEYS_ONLY) != 0,
                                       .limit = limit};
    return attachment && direct_range_page(direct, &attachment->reader, &range, &cursor->page);
}

static enum kv_status fetch_range_page(struct clientk_cursor *cursor)
{
    struct clientk_result *page = &cursor->page;
    uint32_t limit = cursor->limited && cursor->left < cursor->page_entries ? (uint32_t)cursor->left
                                                                            : cursor->page_entries;
    if (cursor->last.size > 0) {
        enum kv_status status = range_rest_cut(&cursor->rest, cursor->last);
        if (status != KV_OK)
            return status;
        cursor->last.size = 0;
    }
    bool in_place = range_page_in_place(cursor, limit);
    if (in_place && page->status != KV_OK)
        return range_lacks_memory();
    enum kv_status status =
        in_place ? KV_OK : range_rest_ask(&cursor->rest, WIRE_OP_RANGE, cursor->flags, limit, page);
    if (status != KV_OK && !result_is_cut_short(page))
        return status;
    if (status != KV_OK)
        cursor->left_out = *last_error_of_thread();
    cursor->entries = read_cursor(page->value.data, page->value.size);
    cursor->more = wire_range_count(page->number) > 0;
    return KV_OK;
}

/* Reads the next entry of the page. False: it has none any more, or *status is a failure. */
static bool read_range_entry(struct clientk_cursor *cursor, struct clientk_entry *entry,
                             enum kv_status *status)
{
    *status = KV_OK;
    while (read_cursor_left(&cursor->entries) > 0) {
        struct wire_scan_entry from;
        if (wire_get_scan_entry(&cursor->entries, &from) != KV_OK) {
            cursor->entries = read_cursor(NULL, 0);
            cursor->more = false;
            *status = refuse_range(KV_IO, "the server's page of a range is malformed");
            return false;
        }
        cursor->last = from.key;
        if (from.passed)
            continue;
        *entry = (struct clientk_entry){.key = from.key,
                                        .value = from.value,
                                        .version = from.version,
                                        .expiry_ms = from.expiry_ms};
        return true;
    }
    return false;
}

/* Tells, once, that something was left out of the page. */
static enum kv_status take_left_out(struct clientk_cursor *cursor)
{
    enum kv_status status = cursor->left_out.status;
    if (status != KV_OK)
        *last_error_of_thread() = cursor->left_out;
    cursor->left_out.status = KV_OK;
    return status;
}

enum kv_status clientk_cursor_next(struct clientk_cursor *cursor, struct clientk_entry *entry)
{
    if (!cursor || !entry)
        return refuse_range(KV_USAGE, cursor ? "NULL was given as the entry"
                                             : "NULL was given as the cursor");
    uint64_t until_ms = 0;
    enum kv_status status = client_check(cursor->rest.client);
    while (status == KV_OK) {
        if (read_range_entry(cursor, entry, &status)) {
            cursor->left -= cursor->limited;
            return KV_OK;
        }
        if (status == KV_OK)
            status = take_left_out(cursor);
        if (status != KV_OK)
            break;
        if (!cursor->more || (cursor->limited && cursor->left == 0))
            return refuse_range(KV_NOT_FOUND, "the range has no other entry");
        if (client_settings_interrupted(&cursor->rest.client->settings))
            return refuse_range(KV_TIMEOUT, "interrupted before the end of the range");
        if (until_ms == 0 || cursor->last.size > 0)
            until_ms = client_deadline_ms(cursor->rest.client);
        else if (clock_monotonic_coarse_ms() >= until_ms)
            return refuse_range(KV_TIMEOUT, "the server has not gone on with the range in time");
        status = fetch_range_page(cursor);
    }
    return status;
}

/* Counting and deleting --------------------------------------------------------------------- */

/* Repeats the operation until nothing of the range is left, or `limit` entries (0: all) were
 * counted: *sum tells how many. */
static enum kv_status sum_up_range(struct range_rest *rest, enum wire_opcode opcode, unsigned flags,
                                   uint64_t limit, uint64_t *sum)
{
    struct clientk_result result = {.status = KV_OK};
    struct kv_error left_out = {.status = KV_OK};
    enum kv_status status = KV_OK;
    bool more = true;
    while (more && status == KV_OK) {
        uint64_t left = limit - *sum;
        result_clear(&result, KV_OK);
        status = range_rest_ask(rest, opcode, flags,
                                limit > 0 && left < UINT32_MAX ? (uint32_t)left : 0, &result);
        *sum += wire_range_count(result.number);
        if (status != KV_OK && result_is_cut_short(&result)) {
            left_out = *last_error_of_thread();
            status = KV_OK;
        }
        more = status == KV_OK && result.value.size > 0 && (limit == 0 || *sum < limit);
        if (more)
            status = range_rest_cut(rest, kv_slice(result.value.data, result.value.size));
        if (more && status == KV_OK && client_settings_interrupted(&rest->client->settings))
            status = refuse_range(KV_TIMEOUT, "interrupted before the end of the range");
    }
    clientk_value_free(&result.value);
    if (status != KV_OK || left_out.status == KV_OK)
        return status;
    *last_error_of_thread() = left_out;
    return left_out.status;
}

enum kv_status clientk_count_range(struct clientk *client, const struct clientk_range *range,
                                   uint64_t *count)
{
    struct range_rest rest;
    if (!count)
        return refuse_range(KV_USAGE, "NULL was given as the count");
    *count = 0;
    enum kv_status status = range_rest_init(&rest, client, range);
    if (status == KV_OK)
        status = sum_up_range(&rest, WIRE_OP_RANGE_COUNT, 0, 0, count);
    range_rest_free(&rest);
    return status;
}

enum kv_status clientk_delete_range(struct clientk *client, const struct clientk_range *range,
                                    uint64_t *deleted)
{
    struct range_rest rest;
    uint64_t unwanted;
    if (!deleted)
        deleted = &unwanted;
    *deleted = 0;
    enum kv_status status = range_rest_init(&rest, client, range);
    if (status == KV_OK)
        status = sum_up_range(&rest, WIRE_OP_RANGE_DELETE, translate_durability(range->durability),
                              range->limit, deleted);
    range_rest_free(&rest);
    return status;
}
