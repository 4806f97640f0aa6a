/* An ordered store whose order is being built while threads write it, read ranges and compact. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvstore/table/ordering.h"
#include "kvstore/api/store.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"

#define STAYING     7u /* keys that are there all the time: "k1", "k3" ... */
#define COMING      8u /* that come and go: "k0", "k2" ... */
#define WRITERS     2u
#define WRITES_EACH 6u
#define READS_EACH  4u
#define FILES       2u

static struct kvstore *store;

static struct kv_slice order_key(unsigned number, char text[8])
{
    snprintf(text, 8, "k%c", (int)('a' + number));
    return kv_slice_from_string(text);
}

static void put_key(unsigned number)
{
    char text[8];
    enum kv_status status =
        kvstore_put(store, order_key(number, text), kv_slice_from_string("value"), NULL, NULL);
    EXPLORE_CHECK(status == KV_OK, "a put gives status %d", status);
}

/* One of two keys is there at each moment: a transaction takes the one and brings the other. If
 * it is to be refused, its last step is, and what it has done is taken back. */
static void swap_keys(bool refused)
{
    struct kvstore_guard guard = {.kind = KVSTORE_GUARD_PRESENT, .key = kv_slice_from_string("x")};
    struct kvstore_step to_y[] = {{.kind = KVSTORE_STEP_DELETE, .key = kv_slice_from_string("x")},
                                  {.kind = KVSTORE_STEP_PUT, .key = kv_slice_from_string("y")},
                                  {.kind = KVSTORE_STEP_PUT, .key = kv_slice_from_string("q1")},
                                  {.kind = KVSTORE_STEP_PUT, .key = kv_slice_from_string("q2")},
                                  {.kind = KVSTORE_STEP_PUT, .key = kv_slice_from_string("q3")}};
    struct kvstore_step to_x[5];
    struct kvstore_step_result results[5];
    memcpy(to_x, to_y, sizeof to_x);
    to_x[0].key = to_y[1].key;
    to_x[1].key = to_y[0].key;
    struct kvstore_transaction asked = {.guards = &guard,
                                        .guard_count = 1,
                                        .then = to_y,
                                        .then_count = refused ? 5 : 2,
                                        .otherwise = to_x,
                                        .otherwise_count = refused ? 5 : 2};
    enum kv_status status = kvstore_transact(store, &asked, results, NULL);
    EXPLORE_CHECK(status == (refused ? KV_QUOTA : KV_OK), "a transaction gives status %d", status);
}

static void write_keys(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < WRITES_EACH; i++) {
        char text[8];
        unsigned number = 2 * explore_random(COMING);
        switch (explore_random(5)) {
        case 0:
            put_key(2 * explore_random(STAYING) + 1);
            break;
        case 1:
            put_key(number);
            break;
        case 2:
            kvstore_delete(store, order_key(number, text), 0, NULL);
            break;
        default:
            swap_keys(explore_random(2) == 0);
            break;
        }
    }
}

struct order_seen {
    char last[8];
    bool reverse;
    unsigned staying, pair;
};

static bool see_key(void *context, const struct kvstore_scanned *entry)
{
    struct order_seen *seen = context;
    char text[8] = "";
    memcpy(text, entry->key.data, entry->key.size < 7 ? entry->key.size : 7);
    int order = seen->last[0] == '\0' ? 0 : strcmp(text, seen->last);
    EXPLORE_CHECK(seen->last[0] == '\0' || (seen->reverse ? order < 0 : order > 0),
                  "%s comes after %s", text, seen->last);
    memcpy(seen->last, text, sizeof text);
    if (text[0] == 'k')
        seen->staying += (unsigned)(text[1] - 'a') % 2;
    else if (text[0] == 'x' || text[0] == 'y')
        seen->pair++;
    return true;
}

/* Reads all keys, some at a time. False: the order is not built yet. */
static bool read_order(uint32_t max_entries)
{
    struct order_seen seen = {.reverse = explore_random(2) == 0};
    struct kvstore_range range = {.reverse = seen.reverse, .max_entries = max_entries};
    struct kvstore_range_result result = {.more = true};
    char last[8];
    while (result.more) {
        enum kv_status status = kvstore_range(store, &range, see_key, &seen, &result);
        if (status == KV_BUSY)
            return false;
        EXPLORE_CHECK(status == KV_OK, "a range gives status %d", status);
        memcpy(last, seen.last, sizeof last);
        range.behind_from = true;
        if (seen.reverse)
            range.to = kv_slice_from_string(last);
        else
            range.from = kv_slice_from_string(last);
    }
    EXPLORE_CHECK(seen.staying == STAYING, "%u keys of %u that stay were visited", seen.staying,
                  STAYING);
    EXPLORE_CHECK(max_entries != 0 || seen.pair == 1, "%u keys of a pair are there at one moment",
                  seen.pair);
    return true;
}

static void read_orders(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < READS_EACH; i++)
        (void)read_order(explore_random(2) == 0 ? 0 : 1 + explore_random(3));
}

static void compact_ordered(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    for (uint32_t number = 0; number < FILES; number++) {
        enum kv_status status = kvstore_compact(store, number, &error);
        EXPLORE_CHECK(status == KV_OK, "a compaction gives status %d: %s", status, error.text);
    }
}

/* In the end the trees have the keys of the indexes. */
static void judge_order(void)
{
    struct kvstore_order_facts facts = {.whole = false};
    struct kvstore_file_statistics statistics;
    uint64_t keys = 0, count = 0;
    while (!facts.whole) {
        explore_sleep_ms(1);
        kvstore_order_facts(store, &facts);
    }
    for (uint32_t number = 0; number < FILES; number++) {
        kvstore_file_statistics(store, number, &statistics);
        keys += statistics.keys;
    }
    EXPLORE_CHECK(facts.keys == keys, "%u keys are in order, of %u", (unsigned)facts.keys,
                  (unsigned)keys);
    struct kvstore_range range = {.max_entries = 0};
    enum kv_status status = kvstore_range_count(store, &range, &count);
    EXPLORE_CHECK(status == KV_OK && count == keys, "%u keys are counted, of %u", (unsigned)count,
                  (unsigned)keys);
    EXPLORE_CHECK(read_order(0), "the order is not whole");
}

static void run(void)
{
    static const struct kvstore_quota quota = {.prefix = {.data = "q", .size = 1}, .max_keys = 2};
    struct kvstore_options options = {
        .create = true, .datafiles = FILES, .quotas = &quota, .quota_count = 1};
    explore_quietly(true);
    explore_directory(&options);
    store = explore_store_open(&options);
    for (unsigned i = 0; i < STAYING; i++)
        put_key(2 * i + 1);
    kvstore_put(store, kv_slice_from_string("x"), kv_slice_from_string(""), NULL, NULL);
    explore_store_close(store);
    options.ordered = true;
    store = explore_store_open(&options);
    explore_quietly(false);
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(0, write_keys, NULL);
    explore_thread(0, read_orders, NULL);
    explore_thread(0, compact_ordered, NULL);
    explore_wait_for_threads();
    explore_quietly(true);
    judge_order();
    explore_store_close(store);
    explore_directory_remove();
}

EXPLORE_HARNESS(explore_order) = {
    .name = "order",
    .invariant = "a range has what stays once and in order, and a call of it is one moment",
    .run = run,
};
