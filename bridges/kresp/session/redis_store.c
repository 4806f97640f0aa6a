#include "bridges/kresp/session/redis_store.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"

/* If the server counts at most this many keys, they are looked at one by one. */
#define MAX_COUNTED_KEYS 1000u

struct redis_store {
    struct clientk *client;
    _Atomic size_t max_value_bytes;
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

/* Returns the number behind "name": in the sums of the section; 0 if it is not there. */
static uint64_t read_figure(const char *sums, const char *name)
{
    char quoted[32];
    uint64_t figure = 0;
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(sums, quoted);
    if (at)
        sscanf(at + strlen(quoted), "%" SCNu64, &figure); // NOLINT(cert-err34-c): 0 is an answer
    return figure;
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
        const char *sums = strstr(json.data, "\"sum\":");
        if (!sums)
            sums = "";
        *figures = (struct redis_store_figures){.files = read_figure(sums, "files"),
                                                .keys = read_figure(sums, "keys"),
                                                .expiring_keys = read_figure(sums, "expiring_keys"),
                                                .bytes = read_figure(sums, "live_bytes")};
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
}

size_t redis_store_max_value_bytes(const struct redis_store *store)
{
    return atomic_load_explicit(&store->max_value_bytes, memory_order_relaxed);
}
