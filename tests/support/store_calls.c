#include "tests/support/store_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"

#define TEXT_BYTES    (1u << 16)
#define WAIT_LIMIT_MS 30000u
#define WAIT_STEP_MS  2u

static void require(enum kv_status status, const char *what, const char *detail)
{
    if (status == KV_OK)
        return;
    fprintf(stderr, "store_calls: %s: %s: %s\n", what, kv_status_name(status), detail);
    abort();
}

struct kvstore *must_open(const char *dir, const struct kvstore_options *options)
{
    struct kvstore *store;
    struct kv_error error = {0};
    enum kv_status status = kvstore_open(dir, options, &store, &error);
    require(status, "open", error.text);
    return store;
}

void must_close(struct kvstore *store)
{
    struct kv_error error = {0};
    enum kv_status status = kvstore_close(store, &error);
    require(status, "close", error.text);
}

static struct kvstore_written put(struct kvstore *store, const char *key, const char *value)
{
    struct kvstore_written written;
    require(
        kvstore_put(store, kv_slice_from_string(key), kv_slice_from_string(value), NULL, &written),
        "put", key);
    return written;
}

uint64_t must_put(struct kvstore *store, const char *key, const char *value)
{
    return put(store, key, value).version;
}

struct kvstore_ticket must_put_for_ticket(struct kvstore *store, const char *key, const char *value)
{
    return put(store, key, value).ticket;
}

const char *get_text(struct kvstore *store, const char *key)
{
    static _Thread_local char text[TEXT_BYTES];
    struct kvstore_entry entry;
    enum kv_status status =
        kvstore_get(store, kv_slice_from_string(key), text, sizeof text - 1, &entry);
    if (status == KV_NOT_FOUND)
        return NULL;
    require(status, "get", key);
    text[entry.value_bytes] = '\0';
    return text;
}

enum kv_status get_entry(struct kvstore *store, const char *key, struct kvstore_entry *entry)
{
    return kvstore_get(store, kv_slice_from_string(key), NULL, 0, entry);
}

struct kvstore_file_statistics total_statistics(struct kvstore *store)
{
    struct kvstore_file_statistics total = {.from_checkpoint = true};
    for (uint32_t file = 0; file < kvstore_datafiles(store); file++) {
        struct kvstore_file_statistics one;
        kvstore_file_statistics(store, file, &one);
        total.keys += one.keys;
        total.expiring_keys += one.expiring_keys;
        total.live_bytes += one.live_bytes;
        total.dead_bytes += one.dead_bytes;
        total.spare_bytes += one.spare_bytes;
        total.file_bytes += one.file_bytes;
        total.index_bytes += one.index_bytes;
        total.appended_bytes += one.appended_bytes;
        total.synced_bytes += one.synced_bytes;
        total.syncs += one.syncs;
        total.sync_failures += one.sync_failures;
        total.compactions += one.compactions;
        total.compaction_failures += one.compaction_failures;
        total.past_logs += one.past_logs;
        total.past_log_bytes += one.past_log_bytes;
        total.expired += one.expired;
        total.read_retries += one.read_retries;
        total.read_fallbacks += one.read_fallbacks;
        total.recovered_bytes_cut += one.recovered_bytes_cut;
        total.from_checkpoint = total.from_checkpoint && one.from_checkpoint;
        total.read_only = total.read_only || one.read_only;
    }
    return total;
}

bool wait_until(bool (*holds)(void *context), void *context)
{
    uint64_t give_up_ms = clock_monotonic_coarse_ms() + WAIT_LIMIT_MS;
    while (clock_monotonic_coarse_ms() < give_up_ms) {
        if (holds(context))
            return true;
        clock_sleep_ms(WAIT_STEP_MS);
    }
    return false;
}

const char *numbered(const char *what, int number)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "%s %d", what, number);
    return text;
}

void must_put_numbers(struct kvstore *store, int from, int to)
{
    char value[32];
    for (int i = from; i < to; i++) {
        snprintf(value, sizeof value, "value %d", i);
        must_put(store, numbered("key", i), value);
    }
}

void check_numbers(struct kvstore *store, int from, int to)
{
    char value[32];
    for (int i = from; i < to; i++) {
        snprintf(value, sizeof value, "value %d", i);
        const char *found = get_text(store, numbered("key", i));
        if (!found || strcmp(found, value) != 0)
            require(KV_NOT_FOUND, numbered("key", i), found ? found : "it is not there");
    }
}
