#include "mqkv/kvstore.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/numbers/random.h"
#include "tests/support/store_variants.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

#define THREADS  4
#define COUNTERS 16
#define ADDS     3000
#define OWN_KEYS 50
#define STEPS    4000

/* Everything that runs in the background does so all the time. */
static void open_busy_store(int locking)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 3,
                                      .locking = (enum kvstore_locking)locking,
                                      .durability = KVSTORE_SYNC_INTERVAL,
                                      .sync_interval_ms = 1,
                                      .sweep_interval_ms = 1,
                                      .compact_min_bytes = 8192,
                                      .compact_dead_percent = 10};
    store = must_open(dir, &options);
}

static void run_threads(void *(*run)(void *))
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(wrong == NULL, "%s", (char *)wrong);
    }
}

/* Shared counters: no addition may be lost. */
static void *add_many(void *argument)
{
    struct random_state random;
    char key[32];
    random_seed(&random, (uint64_t) * (int *)argument);
    for (int i = 0; i < ADDS; i++) {
        int64_t sum;
        snprintf(key, sizeof key, "counter %d", (int)random_below(&random, COUNTERS));
        if (kvstore_add(store, KEY(key), 1, NULL, &sum, NULL) != KV_OK)
            return strdup(key);
    }
    return NULL;
}

START_TEST(no_addition_is_lost)
{
    open_busy_store(_i);
    run_threads(add_many);
    char key[32];
    long total = 0;
    for (int i = 0; i < COUNTERS; i++) {
        snprintf(key, sizeof key, "counter %d", i);
        total += atol(get_text(store, key));
    }
    ck_assert_int_eq(total, THREADS * ADDS);
}
END_TEST

/* One entry, changed only if its version is as read: no change may be lost. */
static void *change_by_version(void *argument)
{
    (void)argument;
    for (int done = 0; done < 300;) {
        char text[32] = "0";
        struct kvstore_entry entry;
        enum kv_status status = kvstore_get(store, KEY("shared"), text, sizeof text - 1, &entry);
        if (status != KV_OK)
            return strdup(kv_status_name(status));
        text[entry.value_bytes] = '\0';
        char next[32];
        snprintf(next, sizeof next, "%d", atoi(text) + 1);
        struct kvstore_put_options same = {.condition = KVSTORE_IF_VERSION,
                                           .version = entry.version};
        status = kvstore_put(store, KEY("shared"), KEY(next), &same, NULL);
        if (status != KV_OK && status != KV_VERSION_MISMATCH)
            return strdup(kv_status_name(status));
        done += status == KV_OK;
    }
    return NULL;
}

START_TEST(no_conditional_change_is_lost)
{
    open_busy_store(_i);
    must_put(store, "shared", "0");
    run_threads(change_by_version);
    ck_assert_int_eq(atoi(get_text(store, "shared")), THREADS * 300);
}
END_TEST

/* A thread's own keys, any operation: each answer is as if the thread were alone. */
struct owner {
    int number;
    struct random_state random;
    int values[OWN_KEYS]; /* -1: absent */
};

static const char *own_key(const struct owner *owner, int i)
{
    static _Thread_local char key[32];
    snprintf(key, sizeof key, "own %d %d", owner->number, i);
    return key;
}

static bool holds(const struct owner *owner, int i)
{
    const char *text = get_text(store, own_key(owner, i));
    return (text ? atoi(text) : -1) == owner->values[i];
}

static bool put_expiring(const char *key, const char *text)
{
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 2};
    if (kvstore_put(store, KEY(key), KEY(text), &soon, NULL) != KV_OK)
        return false;
    while (get_text(store, key))
        clock_sleep_ms(1);
    return true;
}

static bool do_step(struct owner *owner)
{
    int i = (int)random_below(&owner->random, OWN_KEYS);
    int value = (int)random_below(&owner->random, 1000000);
    bool there = owner->values[i] >= 0;
    const char *key = own_key(owner, i);
    char text[32];
    const struct kvstore_add_options existing = {.if_present = true};
    int64_t sum = 0;
    snprintf(text, sizeof text, "%d", value);
    switch (random_below(&owner->random, 200) == 0 ? 9 : random_below(&owner->random, 5)) {
    case 0:
        owner->values[i] = value;
        return kvstore_put(store, KEY(key), KEY(text), NULL, NULL) == KV_OK;
    case 1:
        owner->values[i] = -1;
        return kvstore_delete(store, KEY(key), 0, NULL) == (there ? KV_OK : KV_NOT_FOUND);
    case 2:
        if (there)
            owner->values[i] += 5;
        return kvstore_add(store, KEY(key), 5, &existing, &sum, NULL) ==
               (there ? KV_OK : KV_NOT_FOUND);
    case 3:
        return kvstore_touch(store, KEY(key), 0, NULL) == (there ? KV_OK : KV_NOT_FOUND);
    case 9:
        owner->values[i] = -1;
        return put_expiring(key, text);
    default:
        return holds(owner, i);
    }
}

static void *mind_own_keys(void *argument)
{
    struct owner owner = {.number = *(int *)argument};
    memset(owner.values, 0xff, sizeof owner.values);
    random_seed(&owner.random, 77 + (uint64_t)owner.number);
    for (int step = 0; step < STEPS; step++)
        if (!do_step(&owner))
            return strdup("a step went wrong");
    for (int i = 0; i < OWN_KEYS; i++)
        if (!holds(&owner, i))
            return strdup(own_key(&owner, i));
    return NULL;
}

START_TEST(every_thread_is_as_if_alone)
{
    open_busy_store(_i);
    run_threads(mind_own_keys);
}
END_TEST

/* Statistics, scans and syncs from everywhere, for the thread sanitizer. */
static bool accept_all(void *context, const struct kvstore_scanned *entry)
{
    *(size_t *)context += entry->value.size;
    return true;
}

static void *look_around(void *argument)
{
    uint64_t cursor = 0;
    size_t bytes = 0;
    int number = *(int *)argument;
    for (int i = 0; i < 300; i++) {
        char key[32];
        snprintf(key, sizeof key, "%d", i);
        struct kvstore_ticket ticket = must_put_for_ticket(store, key, "value");
        total_statistics(store);
        kvstore_request_sync(store, ticket);
        kvstore_scan(store, &cursor, KEY(""), 50, accept_all, &bytes, NULL);
        if (i % 50 == number)
            kvstore_compact(store, ticket.file, NULL);
        if (i % 20 == number && kvstore_wait_durable(store, ticket) != KV_OK)
            return strdup("not durable");
    }
    return NULL;
}

START_TEST(all_calls_at_once)
{
    open_busy_store(_i);
    run_threads(look_around);
    uint64_t waited_ns = kvstore_lock_wait_ns();
    ck_assert_uint_eq(kvstore_lock_wait_ns(), waited_ns);
}
END_TEST

TEST_SUITE(kvstore_concurrency)
{
    TCase *tests = tcase_create("concurrency");
    store_case_add(tests);
    tcase_add_loop_test(tests, no_addition_is_lost, 0, locking_count());
    tcase_add_loop_test(tests, no_conditional_change_is_lost, 0, locking_count());
    tcase_add_loop_test(tests, every_thread_is_as_if_alone, 0, locking_count());
    tcase_add_loop_test(tests, all_calls_at_once, 0, locking_count());
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
