/* Entries that expire: absent for every call from then on, and taken out by the sweeper. */
#include <check.h>
#include <stdio.h>

#include "common/time/clock.h"
#include "mqkv/kvstore.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/unit/suites.h"

#define KEY(text) kv_slice_from_string(text)

static void put_expiring(const char *key, uint64_t expiry_ms)
{
    struct kvstore_put_options options = {.expiry_ms = expiry_ms};
    ck_assert_int_eq(kvstore_put(store, KEY(key), KEY("7"), &options, NULL), KV_OK);
}

static uint64_t expiry_of(const char *key)
{
    struct kvstore_entry entry = {0};
    ck_assert_int_eq(get_entry(store, key, &entry), KV_OK);
    return entry.expiry_ms;
}

START_TEST(an_expired_entry_is_absent_for_every_call)
{
    const struct kvstore_put_options if_present = {.condition = KVSTORE_IF_PRESENT};
    const struct kvstore_put_options if_absent = {.condition = KVSTORE_IF_ABSENT};
    const struct kvstore_add_options existing = {.if_present = true};
    int64_t sum;
    put_expiring("key", 1);
    ck_assert_ptr_null(get_text(store, "key"));
    ck_assert_int_eq(get_entry(store, "key", NULL), KV_NOT_FOUND);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_NOT_FOUND);
    ck_assert_int_eq(kvstore_touch(store, KEY("key"), 0, NULL), KV_NOT_FOUND);
    ck_assert_int_eq(kvstore_add(store, KEY("key"), 1, &existing, &sum, NULL), KV_NOT_FOUND);
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("v"), &if_present, NULL), KV_NOT_FOUND);
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("v"), &if_absent, NULL), KV_OK);
    ck_assert_uint_eq(expiry_of("key"), 0);
    put_expiring("log", 1);
    ck_assert_int_eq(kvstore_append(store, KEY("log"), KEY("x"), NULL, NULL), KV_OK);
    ck_assert_str_eq(get_text(store, "log"), "x");
}
END_TEST

START_TEST(an_entry_is_there_until_it_expires)
{
    put_expiring("key", clock_realtime_ms() + 20);
    while (get_text(store, "key"))
        clock_sleep_ms(1);
    put_expiring("key", clock_realtime_ms() + 3600000);
    ck_assert_str_eq(get_text(store, "key"), "7");
}
END_TEST

START_TEST(which_writes_keep_the_expiry)
{
    const uint64_t later = clock_realtime_ms() + 3600000;
    const struct kvstore_put_options keep = {.keep_expiry = true};
    int64_t sum;
    put_expiring("key", later);
    ck_assert_uint_eq(expiry_of("key"), later);
    ck_assert_int_eq(kvstore_add(store, KEY("key"), 1, NULL, &sum, NULL), KV_OK);
    ck_assert_uint_eq(expiry_of("key"), later);
    ck_assert_int_eq(kvstore_append(store, KEY("key"), KEY("1"), NULL, NULL), KV_OK);
    ck_assert_uint_eq(expiry_of("key"), later);
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("v"), &keep, NULL), KV_OK);
    ck_assert_uint_eq(expiry_of("key"), later);
    ck_assert_int_eq(kvstore_touch(store, KEY("key"), later + 5, NULL), KV_OK);
    ck_assert_uint_eq(expiry_of("key"), later + 5);
    ck_assert_str_eq(get_text(store, "key"), "v");
    must_put(store, "key", "v");
    ck_assert_uint_eq(expiry_of("key"), 0);
    ck_assert_int_eq(kvstore_touch(store, KEY("key"), 1, NULL), KV_OK);
    ck_assert_ptr_null(get_text(store, "key"));
}
END_TEST

static bool nothing_expires(void *context)
{
    return total_statistics(context).expiring_keys == 0;
}

START_TEST(the_sweeper_takes_expired_entries_out)
{
    must_close(store);
    struct kvstore_options options = {.sweep_interval_ms = 5};
    store = must_open(dir, &options);
    char key[24];
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "%d", i);
        if (i % 3 == 0)
            must_put(store, key, "stays");
        else
            put_expiring(key, clock_realtime_ms() + (uint64_t)(i % 50));
    }
    ck_assert(wait_until(nothing_expires, store));
    struct kvstore_file_statistics total = total_statistics(store);
    ck_assert_uint_eq(total.keys, 1000);
    ck_assert_uint_eq(total.expired, 2000);
    put_expiring("late", clock_realtime_ms() + 1);
    ck_assert(wait_until(nothing_expires, store));
    ck_assert_uint_eq(total_statistics(store).expired, 2001);
}
END_TEST

Suite *suite_kvstore_expiry(void)
{
    Suite *suite = suite_create("kvstore_expiry");
    TCase *tests = tcase_create("expiry");
    one_file_case_add(tests);
    tcase_add_test(tests, an_expired_entry_is_absent_for_every_call);
    tcase_add_test(tests, an_entry_is_there_until_it_expires);
    tcase_add_test(tests, which_writes_keep_the_expiry);
    tcase_add_test(tests, the_sweeper_takes_expired_entries_out);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
