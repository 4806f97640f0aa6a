/* A store at its bound: what is written makes other entries go, while others read and the store
 * compacts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"
#include "tests/history/history.h"
#include "tests/support/store_variants.h"

#define KEYS        14u
#define FIRST_KEYS  10u /* that are there when the threads begin */
#define VALUE_BYTES 6000u
#define RECORD_MAX  (VALUE_BYTES + 100u)
#define WRITERS     2u
#define READERS     2u
#define PUTS_EACH   4u
#define GETS_EACH   5u
#define MAX_BYTES   KVSTORE_MIN_BOUND_BYTES

static struct {
    struct kvstore *store;
    struct history_operation operations[KEYS][64];
    unsigned counts[KEYS];
    int64_t last_number;
    unsigned evicted;
    struct kvstore_position position; /* of the follower, before the first change */
    uint64_t newest[KEYS];            /* version of the key's last change */
    bool is_there[KEYS];
} bounded;

static struct kv_slice key_of(unsigned number)
{
    static char names[KEYS][8];
    snprintf(names[number], sizeof names[number], "key %u", number);
    return kv_slice_from_string(names[number]);
}

static struct history_operation *note(unsigned key, enum history_kind kind)
{
    bool was_quiet = explore_quietly(true);
    struct history_operation *noted = &bounded.operations[key][bounded.counts[key]++];
    *noted = (struct history_operation){.kind = kind,
                                        .succeeded = true,
                                        .input = kind == HISTORY_PUT ? ++bounded.last_number : 0,
                                        .start_ns = explore_clock_ns(),
                                        .end_ns = HISTORY_PENDING};
    explore_quietly(was_quiet);
    return noted;
}

/* All bytes of a value are of its number. */
static int64_t number_of(const uint8_t *bytes, size_t size)
{
    EXPLORE_CHECK(size == VALUE_BYTES && memcmp(bytes, bytes + 1, size - 1) == 0,
                  "a value that was never written");
    return bytes[0];
}

/* Each writer is above the bound by one record at most before it has made room. */
static void check_bound(unsigned writers)
{
    struct kvstore_bound_statistics statistics;
    kvstore_bound_statistics(bounded.store, &statistics);
    EXPLORE_CHECK(statistics.live_bytes <= MAX_BYTES + (uint64_t)writers * RECORD_MAX,
                  "%" PRIu64 " bytes are live, of %" PRIu64, statistics.live_bytes,
                  (uint64_t)MAX_BYTES);
}

static void put(unsigned key)
{
    static _Thread_local uint8_t value[VALUE_BYTES];
    struct history_operation *noted = note(key, HISTORY_PUT);
    memset(value, (int)noted->input, sizeof value);
    enum kv_status status =
        kvstore_put(bounded.store, key_of(key), kv_slice(value, sizeof value), NULL, NULL);
    EXPLORE_CHECK(status == KV_OK, "a put gives status %d", status);
    noted->end_ns = explore_clock_ns();
}

static void work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < PUTS_EACH; i++) {
        put(explore_random(KEYS));
        check_bound(WRITERS);
    }
}

static void get(unsigned key)
{
    static _Thread_local uint8_t value[VALUE_BYTES];
    struct kvstore_entry entry;
    struct history_operation *noted = note(key, HISTORY_GET);
    enum kv_status status = kvstore_get(bounded.store, key_of(key), value, sizeof value, &entry);
    EXPLORE_CHECK(status == KV_OK || status == KV_NOT_FOUND, "a get gives status %d", status);
    noted->output = status == KV_OK ? number_of(value, entry.value_bytes) : HISTORY_ABSENT;
    noted->end_ns = explore_clock_ns();
}

static void look(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < GETS_EACH; i++)
        get(explore_random(KEYS));
}

static void compact(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    enum kv_status status = kvstore_compact(bounded.store, 0, &error);
    EXPLORE_CHECK(status == KV_OK, "a compaction gives status %d: %s", status, error.text);
}

/* An entry that made room is deleted, as by kvstore_delete, at some time. */
static bool take_change(void *unused, const struct kvstore_change *change)
{
    (void)unused;
    char text[8] = "";
    memcpy(text, change->key.data, change->key.size < sizeof text ? change->key.size : 0);
    unsigned key = (unsigned)strtoul(text + 4, NULL, 10);
    EXPLORE_CHECK(key < KEYS && change->version > bounded.newest[key],
                  "a change of no key, or late");
    bounded.newest[key] = change->version;
    bounded.is_there[key] = change->kind == KVSTORE_CHANGE_PUT;
    if (change->kind != KVSTORE_CHANGE_PUT) {
        note(key, HISTORY_DELETE)->start_ns = 0;
        bounded.evicted++;
    }
    return true;
}

static void read_changes(void)
{
    for (bool at_end = false; !at_end;) {
        enum kv_status status =
            kvstore_changes(bounded.store, 0, &bounded.position, kv_slice_from_string(""), 100,
                            take_change, NULL, &at_end);
        EXPLORE_CHECK(status == KV_OK, "the changes give status %d", status);
    }
}

static void judge(void)
{
    struct kvstore_bound_statistics statistics;
    kvstore_bound_statistics(bounded.store, &statistics);
    read_changes();
    EXPLORE_CHECK(bounded.evicted == statistics.evictions,
                  "%u entries were deleted, and %" PRIu64 " evicted", bounded.evicted,
                  statistics.evictions);
    for (unsigned key = 0; key < KEYS; key++) {
        struct kvstore_entry entry = {.version = 0};
        enum kv_status status = kvstore_get(bounded.store, key_of(key), NULL, 0, &entry);
        EXPLORE_CHECK((status != KV_NOT_FOUND) == bounded.is_there[key],
                      "key %u: status %d, though it was %sevicted", key, status,
                      bounded.is_there[key] ? "not " : "");
        get(key);
        EXPLORE_CHECK(history_check(bounded.operations[key], bounded.counts[key], HISTORY_ABSENT) !=
                          HISTORY_VIOLATION,
                      "no order of the operations on key %u explains their answers", key);
    }
}

static void run_with(enum kvstore_locking locking, uint64_t cache_bytes)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 1,
                                      .durability = KVSTORE_SYNC_NONE,
                                      .locking = locking,
                                      .cache_bytes = cache_bytes,
                                      .max_bytes = MAX_BYTES,
                                      .evict = KVSTORE_EVICT_S3FIFO,
                                      .keep_changes_ms = 3600000};
    explore_quietly(true);
    memset(&bounded, 0, sizeof bounded);
    explore_directory(&options);
    bounded.store = explore_store_open(&options);
    EXPLORE_CHECK(kvstore_changes_now(bounded.store, 0, &bounded.position) == KV_OK, "no place");
    for (unsigned key = 0; key < FIRST_KEYS; key++)
        put(key);
    explore_quietly(false);
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(0, work, NULL);
    for (unsigned i = 0; i < READERS; i++)
        explore_thread(0, look, NULL);
    explore_thread(0, compact, NULL);
    explore_wait_for_threads();
    explore_quietly(true);
    check_bound(0);
    judge();
    explore_store_close(bounded.store);
    explore_directory_remove();
}

static void run(void)
{
    run_with(explore_random(2) == 0 ? optimistic_if_there() : KVSTORE_FILE_RWLOCK, 0);
}

static void run_cached(void)
{
    run_with(KVSTORE_FILE_RWLOCK, KVSTORE_MIN_CACHE_BYTES);
}

EXPLORE_HARNESS(explore_eviction) = {
    .name = "eviction",
    .invariant = "at the bound entries go one by one, each is deleted, and nothing else is lost",
    .run = run,
};

EXPLORE_HARNESS(explore_eviction_cached) = {
    .name = "eviction-cache",
    .invariant = "the same with --cache: no value is read after its entry has gone",
    .run = run_cached,
};
