#include "bridges/kresp/session/redis_store.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "bridges/kresp/protocol/decimal.h"
#include "common/report/error.h"
#include "common/text/json_scan.h"

/* If the server counts at most this many keys, they are looked at one by one. */
#define MAX_COUNTED_KEYS 1000u

struct redis_store {
    struct clientk *client;
    _Atomic size_t max_value_bytes;
    atomic_bool in_cluster;
};

static atomic_bool interrupted;

static bool store_is_interrupted(void)
{
    return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

void redis_store_interrupt(void)
{
    atomic_store(&interrupted, true);
}

enum kv_status redis_store_open(const char *queue, uint32_t timeout_ms, struct redis_store **store,
                                struct kv_error *error)
{
    struct clientk_options options = {
        .queue = queue, .timeout_ms = timeout_ms, .interrupted = store_is_interrupted};
    struct redis_store *opened = calloc(1, sizeof *opened);
    if (!opened)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    enum kv_status status = clientk_open(&options, &opened->client, error);
    if (status != KV_OK) {
        free(opened);
        return status;
    }
    redis_store_refresh(opened);
    *store = opened;
    return KV_OK;
}

void redis_store_close(struct redis_store *store)
{
    if (!store)
        return;
    clientk_close(store->client);
    free(store);
}

void redis_store_execute(struct redis_store *store, const struct clientk_operation *operations,
                         size_t count, struct clientk_result *results)
{
    enum kv_status status = clientk_execute(store->client, operations, count, results);
    /* With these statuses the library fills in no result. */
    if (status == KV_USAGE || status == KV_NO_MEMORY)
        for (size_t i = 0; i < count; i++)
            results[i].status = status;
}

enum kv_status redis_store_transact(struct redis_store *store,
                                    const struct clientk_transaction *transaction,
                                    struct clientk_result *results,
                                    struct clientk_transacted *transacted)
{
    return clientk_transact(store->client, transaction, results, transacted);
}

enum kv_status redis_store_range(struct redis_store *store, const struct clientk_range *range,
                                 clientk_visit visit, void *context)
{
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    bool failed = false; /* just before */
    enum kv_status status = clientk_cursor_open(store->client, range, &cursor);
    while (status == KV_OK) {
        status = clientk_cursor_next(cursor, &entry);
        bool left_out = (status == KV_CORRUPT || status == KV_IO) && !failed;
        failed = status != KV_OK;
        if (left_out)
            status = KV_OK;
        else if (!failed && !visit(context, &entry))
            break;
    }
    clientk_cursor_close(cursor);
    return status == KV_NOT_FOUND ? KV_OK : status;
}

struct clientk_watch *redis_store_watch(struct redis_store *store, struct kv_slice prefix,
                                        bool keys_only, struct kv_error *error)
{
    const struct clientk_watch_options options = {.prefix = prefix, .keys_only = keys_only};
    struct clientk_watch *watch = NULL;
    return clientk_watch_open(store->client, &options, &watch, error) == KV_OK ? watch : NULL;
}

const char *redis_store_last_error(void)
{
    return clientk_last_error();
}

enum kv_status redis_store_sync(struct redis_store *store)
{
    return clientk_sync(store->client);
}

/* Returns the member of the JSON object; of size 0 if it has none of that name. */
static struct kv_slice member_of(struct kv_slice object, const char *name)
{
    struct json_scan scan = json_scan(object);
    struct kv_slice found, value;
    bool goes_on = json_scan_take(&scan, '{');
    while (goes_on && json_scan_name(&scan, &found) && json_scan_value(&scan, &value)) {
        if (kv_slice_equal(found, kv_slice_from_string(name)))
            return value;
        goes_on = json_scan_take(&scan, ',');
    }
    return kv_slice(NULL, 0);
}

/* Returns the number of that name; 0 if there is none. */
static uint64_t figure_of(struct kv_slice object, const char *name)
{
    int64_t figure = 0;
    return decimal_parse(member_of(object, name), &figure) && figure > 0 ? (uint64_t)figure : 0;
}

static bool count_scanned_key(void *context, const struct clientk_entry *entry)
{
    *(uint64_t *)context += !redis_store_owns(entry->key);
    return true;
}

/* Counts the live keys of a small store, in which some may have expired. */
static enum kv_status count_live_keys(struct redis_store *store,
                                      struct redis_store_figures *figures)
{
    uint64_t cursor = 0, keys = 0;
    enum kv_status status = clientk_scan(store->client, kv_slice(NULL, 0), true, &cursor,
                                         MAX_COUNTED_KEYS, count_scanned_key, &keys);
    if (status == KV_OK && cursor == 0 && keys < figures->keys) {
        uint64_t expired = figures->keys - keys;
        figures->keys = keys;
        figures->expiring_keys -=
            expired < figures->expiring_keys ? expired : figures->expiring_keys;
    }
    return status;
}

enum kv_status redis_store_count(struct redis_store *store, struct redis_store_figures *figures)
{
    struct clientk_value json = {0};
    enum kv_status status = clientk_stats(store->client, "files", &json);
    if (status == KV_OK) {
        struct kv_slice files = member_of(kv_slice(json.data, json.size), "files");
        struct kv_slice sum = member_of(files, "sum");
        *figures = (struct redis_store_figures){.files = figure_of(sum, "files"),
                                                .keys = figure_of(sum, "keys"),
                                                .expiring_keys = figure_of(sum, "expiring_keys"),
                                                .bytes = figure_of(sum, "live_bytes")};
    }
    clientk_value_free(&json);
    if (status == KV_OK && figures->expiring_keys > 0 && figures->keys <= MAX_COUNTED_KEYS)
        status = count_live_keys(store, figures);
    return status;
}

void redis_store_refresh(struct redis_store *store)
{
    struct clientk_info info;
    clientk_info(store->client, &info);
    atomic_store_explicit(&store->max_value_bytes, (size_t)info.max_value_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&store->in_cluster, info.in_cluster, memory_order_relaxed);
}

size_t redis_store_max_value_bytes(const struct redis_store *store)
{
    return atomic_load_explicit(&store->max_value_bytes, memory_order_relaxed);
}

bool redis_store_is_in_cluster(const struct redis_store *store)
{
    return atomic_load_explicit(&store->in_cluster, memory_order_relaxed);
}
