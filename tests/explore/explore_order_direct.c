/* Ranges without the daemon: another process walks the orders, while the daemon writes, takes
 * transactions back, compacts, and is started anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "clientk/direct/direct_range.h"
#include "kvstore/api/store.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"

#define DAEMON      1u
#define CLIENT      2u
#define STAYING     6u /* keys that are there all the time: "k1", "k3" ... */
#define COMING      7u /* that come and go: "k0", "k2" ... */
#define WRITES_EACH 8u
#define RANGES_EACH 5u
#define FILES       2u

static struct kvstore *store;
static struct direct direct;
static struct client_settings settings;
static int daemon_fd; /* readable once the daemon has ended */
static struct kvstore_options options;

static struct kv_slice key_in_order(unsigned number, char text[8])
{
    snprintf(text, 8, "k%c", (int)('a' + number));
    return kv_slice_from_string(text);
}

/* The value of a key is the key. */
static void put_in_order(struct kv_slice key)
{
    enum kv_status status = kvstore_put(store, key, key, NULL, NULL);
    EXPLORE_CHECK(status == KV_OK, "a put gives status %d", status);
}

/* One of "x" and "y" is there at each moment. If the swap is to be refused, the last step is, and
 * what was done is taken back. */
static void swap_pair(bool refused)
{
    struct kv_slice x = kv_slice_from_string("x"), y = kv_slice_from_string("y");
    struct kv_slice q1 = kv_slice_from_string("q1"), q2 = kv_slice_from_string("q2");
    struct kvstore_guard guard = {.kind = KVSTORE_GUARD_PRESENT, .key = x};
    struct kvstore_step to_y[] = {
        {.kind = KVSTORE_STEP_DELETE, .key = x},
        {.kind = KVSTORE_STEP_PUT, .key = y, .value = y},
        {.kind = KVSTORE_STEP_PUT, .key = q1, .value = q1},
        {.kind = KVSTORE_STEP_PUT, .key = q2, .value = q2},
    };
    struct kvstore_step to_x[4];
    struct kvstore_step_result results[4];
    memcpy(to_x, to_y, sizeof to_x);
    to_x[0].key = y;
    to_x[1].key = to_x[1].value = x;
    struct kvstore_transaction asked = {.guards = &guard,
                                        .guard_count = 1,
                                        .then = to_y,
                                        .then_count = refused ? 4 : 2,
                                        .otherwise = to_x,
                                        .otherwise_count = refused ? 4 : 2};
    enum kv_status status = kvstore_transact(store, &asked, results, NULL);
    EXPLORE_CHECK(status == (refused ? KV_QUOTA : KV_OK), "a transaction gives status %d", status);
}

static void change_order(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < WRITES_EACH; i++) {
        char text[8];
        struct kv_slice coming = key_in_order(2 * explore_random(COMING), text);
        switch (explore_random(6)) {
        case 0:
            put_in_order(key_in_order(2 * explore_random(STAYING) + 1, text));
            break;
        case 1:
        case 2:
            put_in_order(coming);
            break;
        case 3:
            kvstore_delete(store, coming, 0, NULL);
            break;
        default:
            swap_pair(explore_random(2) == 0);
            break;
        }
    }
}

static void compact_order(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    for (uint32_t number = 0; number < FILES; number++) {
        enum kv_status status = kvstore_compact(store, number, &error);
        EXPLORE_CHECK(status == KV_OK, "a compaction gives status %d: %s", status, error.text);
    }
}

struct range_seen {
    char last[8];
    bool reverse, with_values;
    unsigned staying, pair;
};

static bool see_entry(void *context, const struct clientk_entry *entry)
{
    struct range_seen *seen = context;
    char text[8] = "";
    EXPLORE_CHECK(entry->key.size == 1 || entry->key.size == 2, "a key that was not written");
    memcpy(text, entry->key.data, entry->key.size);
    EXPLORE_CHECK(strchr("kxyq", text[0]) != NULL, "a key that was not written: %s", text);
    EXPLORE_CHECK(!seen->with_values || kv_slice_equal(entry->key, entry->value),
                  "%s has another key's value", text);
    int order = seen->last[0] == '\0' ? 0 : strcmp(text, seen->last);
    EXPLORE_CHECK(seen->last[0] == '\0' || (seen->reverse ? order < 0 : order > 0),
                  "%s comes after %s", text, seen->last);
    memcpy(seen->last, text, sizeof text);
    if (text[0] == 'k')
        seen->staying += (unsigned)(text[1] - 'a') % 2;
    else if (text[0] != 'q')
        seen->pair++;
    return true;
}

/* Reads all keys, `limit` at a time. What cannot be read in place is asked for by message, which is
 * no part of this. */
static void range_in_place(struct direct_reader *reader, uint32_t limit)
{
    struct range_seen seen = {.reverse = explore_random(2) == 0};
    struct direct_range range = {.reverse = seen.reverse, .limit = limit};
    struct clientk_result result = {.number = 1};
    char last[8];
    range.keys_only = explore_random(2) == 0;
    seen.with_values = !range.keys_only;
    unsigned pages = 0;
    bool read = true;
    while (read && result.number == 1) {
        read = direct_range_page(&direct, reader, &range, &result);
        if (!read)
            break;
        EXPLORE_CHECK(result.status == KV_OK, "a range gives status %d", result.status);
        seen.pair = 0;
        clientk_read_page(&result.value, see_entry, &seen);
        memcpy(last, seen.last, sizeof last);
        range.behind_from = true;
        *(seen.reverse ? &range.to : &range.from) = kv_slice_from_string(last);
        pages++;
        EXPLORE_CHECK(seen.pair <= 1, "a page has %u keys of a pair", seen.pair);
    }
    EXPLORE_CHECK(!read || seen.staying == STAYING, "%u keys of %u that stay were given",
                  seen.staying, STAYING);
    EXPLORE_CHECK(!read || pages > 1 || seen.pair == 1, "a page has no key of a pair");
    clientk_value_free(&result.value);
}

static void ranges_in_place(void *unused)
{
    struct direct_reader reader = {.era = 0};
    (void)unused;
    handles_lock();
    direct_readers_join(&direct.readers, &reader);
    handles_unlock();
    for (unsigned i = 0; i < RANGES_EACH; i++)
        range_in_place(&reader, explore_random(2) == 0 ? 0 : 1 + explore_random(4));
    handles_lock();
    direct_readers_leave(&direct.readers, &reader);
    handles_unlock();
}

static void open_ordered_store(void)
{
    static const struct kvstore_quota quota = {.prefix = {.data = "q", .size = 1}, .max_keys = 1};
    options.quotas = &quota;
    options.quota_count = 1;
    store = explore_store_open(&options);
}

static void begin_order(void)
{
    struct kvstore_order_facts order = {.whole = false};
    struct kvstore_direct_facts facts;
    options = (struct kvstore_options){.create = true,
                                       .datafiles = FILES,
                                       .durability = KVSTORE_SYNC_NONE,
                                       .ordered = true,
                                       .direct = KVSTORE_DIRECT_OWNER};
    explore_quietly(true);
    explore_directory(&options);
    daemon_fd = eventfd(0, EFD_CLOEXEC);
    settings = (struct client_settings){.direct = CLIENTK_DIRECT_MAP};
    direct_init(&direct, &settings);
    open_ordered_store();
    for (unsigned i = 0; i < STAYING; i++) {
        char text[8];
        put_in_order(key_in_order(2 * i + 1, text));
    }
    put_in_order(kv_slice_from_string("x"));
    while (!order.whole) {
        explore_sleep_ms(1);
        kvstore_order_facts(store, &order);
    }
    kvstore_direct_facts(store, &facts);
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = 1,
                                   .store_device = facts.device,
                                   .store_inode = facts.inode,
                                   .store_number = facts.number};
    direct_welcome(&direct, &welcome, geteuid(), (struct direct_server){.fd = daemon_fd});
    explore_quietly(false);
}

static void end_order(void)
{
    explore_wait_for_threads();
    explore_quietly(true);
    direct_free(&direct);
    close(daemon_fd);
    explore_store_close(store);
    explore_directory_remove();
}

static void run(void)
{
    begin_order();
    for (unsigned i = 0; i < 2; i++)
        explore_thread(DAEMON, change_order, NULL);
    explore_thread(DAEMON, compact_order, NULL);
    for (unsigned i = 0; i < 2; i++)
        explore_thread(CLIENT, ranges_in_place, NULL);
    end_order();
}

static void restart_ordered(void *unused)
{
    (void)unused;
    change_order(NULL);
    explore_store_close(store);
    open_ordered_store();
    change_order(NULL);
    compact_order(NULL);
}

static void run_restart(void)
{
    begin_order();
    explore_thread(DAEMON, restart_ordered, NULL);
    for (unsigned i = 0; i < 2; i++)
        explore_thread(CLIENT, ranges_in_place, NULL);
    end_order();
}

EXPLORE_HARNESS(explore_order_direct) = {
    .name = "order-direct",
    .invariant = "a range in place has what stays once and in order, and all of a transaction",
    .run = run,
};

EXPLORE_HARNESS(explore_order_direct_restart) = {
    .name = "order-direct-restart",
    .invariant = "the same while the daemon is restarted and compacts what it has",
    .run = run_restart,
};
