#include "mqkv/kvstore.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "tests/support/store_variants.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

/* A file that is kept -------------------------------------------------------------------------- */

static atomic_bool keeps, kept;       /* from now on the writer keeps the lock; it does */
static _Thread_local bool is_keeping; /* the writer */

/* The store's own threads do not keep it: one that had it for reading would let the test's thread
 * have it, too, which would then wait here for itself. */
static void keep_lock(void)
{
    if (!is_keeping)
        return;
    atomic_store(&kept, true);
    while (atomic_load(&keeps))
        clock_sleep_ms(1);
}

static void *put_and_keep(void *unused)
{
    (void)unused;
    is_keeping = true;
    must_put(store, "key", "new");
    return NULL;
}

START_TEST(a_file_that_is_kept_is_told_of_as_it_was)
{
    struct kvstore_options options = {.create = true, .datafiles = 1, .before_unlock = keep_lock};
    struct kvstore_file_statistics statistics;
    pthread_t writer;
    store = must_open(dir, &options);
    must_put(store, "other", "value");
    kvstore_file_statistics(store, 0, &statistics);
    ck_assert_uint_eq(statistics.stale_ms, 0);
    uint64_t before = statistics.appended_bytes;
    must_put(store, "another", "value"); /* since the last look */
    atomic_store(&keeps, true);
    ck_assert_int_eq(pthread_create(&writer, NULL, put_and_keep, NULL), 0);
    while (!atomic_load(&kept))
        clock_sleep_ms(1);
    for (int i = 0; i < 2; i++) {
        kvstore_file_statistics(store, 0, &statistics);
        ck_assert_uint_gt(statistics.stale_ms, 0);
        ck_assert_uint_eq(statistics.keys, 1);
        ck_assert_uint_le(statistics.synced_bytes, statistics.appended_bytes);
        ck_assert_uint_gt(statistics.appended_bytes, before); /* what SYNC waits for */
    }
    atomic_store(&keeps, false);
    pthread_join(writer, NULL);
    kvstore_file_statistics(store, 0, &statistics);
    ck_assert_uint_eq(statistics.stale_ms, 0);
    ck_assert_uint_eq(statistics.keys, 3);
}
END_TEST

/* Get and put ---------------------------------------------------------------------------------- */

START_TEST(what_is_put_is_got)
{
    ck_assert_ptr_null(get_text(store, "key"));
    must_put(store, "key", "value");
    ck_assert_str_eq(get_text(store, "key"), "value");
    must_put(store, "key", "");
    ck_assert_str_eq(get_text(store, "key"), "");
    ck_assert_ptr_null(get_text(store, "ke"));
    ck_assert_ptr_null(get_text(store, "keys"));
}
END_TEST

START_TEST(keys_have_1_to_65535_bytes)
{
    char *key = malloc(KVSTORE_MAX_KEY_BYTES + 1);
    memset(key, 0, KVSTORE_MAX_KEY_BYTES + 1);
    char buffer[8];
    struct kv_slice none = kv_slice(key, 0), most = kv_slice(key, KVSTORE_MAX_KEY_BYTES);
    struct kv_slice too_many = kv_slice(key, KVSTORE_MAX_KEY_BYTES + 1);
    int64_t sum;
    ck_assert_int_eq(kvstore_put(store, none, KEY("v"), NULL, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_put(store, too_many, KEY("v"), NULL, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_get(store, none, buffer, sizeof buffer, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_get(store, too_many, buffer, sizeof buffer, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_delete(store, none, 0, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_add(store, none, 1, NULL, &sum, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_append(store, none, KEY("v"), NULL, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_touch(store, too_many, 0, NULL), KV_BAD_KEY);
    ck_assert_int_eq(kvstore_put(store, most, KEY("v"), NULL, NULL), KV_OK);
    ck_assert_int_eq(kvstore_put(store, kv_slice(key, 1), KEY("w"), NULL, NULL), KV_OK);
    ck_assert_int_eq(kvstore_get(store, most, buffer, sizeof buffer, NULL), KV_OK);
    ck_assert_mem_eq(buffer, "v", 1);
    ck_assert_int_eq(kvstore_get(store, kv_slice("\0", 1), buffer, sizeof buffer, NULL), KV_OK);
    ck_assert_mem_eq(buffer, "w", 1);
    free(key);
}
END_TEST

START_TEST(values_have_up_to_max_value_bytes)
{
    size_t limit = kvstore_max_value_bytes(store);
    ck_assert_uint_eq(limit, KVSTORE_DEFAULT_MAX_VALUE_BYTES);
    char *value = malloc(limit + 1), *copy = malloc(limit);
    memset(value, 'x', limit + 1);
    struct kvstore_entry entry;
    ck_assert_int_eq(kvstore_put(store, KEY("big"), kv_slice(value, limit), NULL, NULL), KV_OK);
    ck_assert_int_eq(kvstore_put(store, KEY("big"), kv_slice(value, limit + 1), NULL, NULL),
                     KV_VALUE_TOO_BIG);
    ck_assert_int_eq(kvstore_get(store, KEY("big"), copy, limit, &entry), KV_OK);
    ck_assert_uint_eq(entry.value_bytes, limit);
    ck_assert_mem_eq(copy, value, limit);
    uint32_t size = 0;
    ck_assert_int_eq(kvstore_append(store, KEY("big"), KEY("y"), &size, NULL), KV_VALUE_TOO_BIG);
    free(value);
    free(copy);
}
END_TEST

START_TEST(a_small_buffer_is_told_the_size)
{
    char buffer[4] = "old";
    struct kvstore_entry entry = {0};
    uint64_t version = must_put(store, "key", "12345");
    ck_assert_int_eq(kvstore_get(store, KEY("key"), buffer, sizeof buffer, &entry),
                     KV_BUFFER_TOO_SMALL);
    ck_assert_str_eq(buffer, "old");
    ck_assert_uint_eq(entry.value_bytes, 5);
    ck_assert_uint_eq(entry.version, version);
    memset(&entry, 0, sizeof entry);
    ck_assert_int_eq(kvstore_get(store, KEY("key"), NULL, 0, &entry), KV_OK);
    ck_assert_uint_eq(entry.value_bytes, 5);
}
END_TEST

/* What a put with a condition says when the key is absent, and when it is there. */
struct condition_case {
    enum kvstore_condition condition;
    int version_difference; /* of the version asked for from the entry's */
    enum kv_status absent, present;
};

static const struct condition_case condition_cases[] = {
    {KVSTORE_ALWAYS, 0, KV_OK, KV_OK},
    {KVSTORE_IF_ABSENT, 0, KV_OK, KV_EXISTS},
    {KVSTORE_IF_PRESENT, 0, KV_NOT_FOUND, KV_OK},
    {KVSTORE_IF_VERSION, 0, KV_NOT_FOUND, KV_OK},
    {KVSTORE_IF_VERSION, 1, KV_NOT_FOUND, KV_VERSION_MISMATCH},
    {KVSTORE_IF_VERSION, -1, KV_NOT_FOUND, KV_VERSION_MISMATCH},
    {(enum kvstore_condition)9, 0, KV_BAD_REQUEST, KV_BAD_REQUEST},
};

START_TEST(conditions_of_a_put)
{
    const struct condition_case *one = &condition_cases[_i];
    struct kvstore_put_options options = {.condition = one->condition, .version = 1};
    ck_assert_int_eq(kvstore_put(store, KEY("absent"), KEY("new"), &options, NULL), one->absent);
    const char *text = get_text(store, "absent");
    ck_assert((text != NULL) == (one->absent == KV_OK));

    uint64_t version = must_put(store, "present", "old");
    options.version = version + (uint64_t)one->version_difference;
    ck_assert_int_eq(kvstore_put(store, KEY("present"), KEY("new"), &options, NULL), one->present);
    ck_assert_str_eq(get_text(store, "present"), one->present == KV_OK ? "new" : "old");
}
END_TEST

START_TEST(conditions_of_an_exchange)
{
    const struct condition_case *one = &condition_cases[_i];
    struct kvstore_put_options options = {.condition = one->condition, .version = 1};
    char buffer[16];
    bool found = true;
    ck_assert_int_eq(kvstore_exchange(store, KEY("absent"), KEY("new"), &options, buffer,
                                      sizeof buffer, &found, NULL, NULL),
                     one->absent);
    ck_assert(one->absent != KV_OK || !found);
    uint64_t version = must_put(store, "present", "old");
    options.version = version + (uint64_t)one->version_difference;
    ck_assert_int_eq(kvstore_exchange(store, KEY("present"), KEY("new"), &options, buffer,
                                      sizeof buffer, &found, NULL, NULL),
                     one->present);
    ck_assert(one->present != KV_OK || found);
    ck_assert_str_eq(get_text(store, "present"), one->present == KV_OK ? "new" : "old");
}
END_TEST

START_TEST(versions_grow_with_every_write)
{
    struct kvstore_written written = {0};
    uint64_t last = must_put(store, "key", "value");
    ck_assert_uint_eq(last, 1);
    ck_assert_uint_gt(must_put(store, "key", "value"), last);
    struct kvstore_entry entry;
    ck_assert_int_eq(get_entry(store, "key", &entry), KV_OK);
    last = entry.version;
    ck_assert_int_eq(kvstore_touch(store, KEY("key"), 0, &written), KV_OK);
    ck_assert_uint_gt(written.version, last);
    last = written.version;
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, &written), KV_OK);
    ck_assert_uint_gt(written.version, last);
    last = written.version;
    ck_assert_uint_gt(must_put(store, "key", "value"), last);
}
END_TEST

START_TEST(a_delete_may_ask_for_a_version)
{
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_NOT_FOUND);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 5, NULL), KV_NOT_FOUND);
    uint64_t version = must_put(store, "key", "value");
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), version + 1, NULL), KV_VERSION_MISMATCH);
    ck_assert_str_eq(get_text(store, "key"), "value");
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), version, NULL), KV_OK);
    ck_assert_ptr_null(get_text(store, "key"));
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_NOT_FOUND);
}
END_TEST

/* Add, append, exchange ------------------------------------------------------------------------ */

START_TEST(add_counts)
{
    const struct kvstore_add_options existing = {.if_present = true}, counter = {.initial = 10};
    int64_t sum = 0;
    ck_assert_int_eq(kvstore_add(store, KEY("n"), 1, &existing, &sum, NULL), KV_NOT_FOUND);
    ck_assert_int_eq(kvstore_add(store, KEY("n"), 5, &counter, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, 15);
    ck_assert_int_eq(kvstore_add(store, KEY("n"), -32, NULL, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, -17);
    ck_assert_str_eq(get_text(store, "n"), "-17");
    must_put(store, "n", "seventeen");
    ck_assert_int_eq(kvstore_add(store, KEY("n"), 1, NULL, &sum, NULL), KV_NOT_A_NUMBER);
    ck_assert_str_eq(get_text(store, "n"), "seventeen");
}
END_TEST

START_TEST(add_from_zeros_has_no_bounds_and_creates)
{
    const struct kvstore_add_options zeros = {0}, one_bound = {.has_max = true};
    int64_t sum = 0;
    ck_assert_int_eq(kvstore_add(store, KEY("z"), -5, &zeros, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, -5);
    ck_assert_int_eq(kvstore_add(store, KEY("z"), 5, &one_bound, &sum, NULL), KV_OK);
    ck_assert_int_eq(kvstore_add(store, KEY("z"), 1, &one_bound, &sum, NULL), KV_OUT_OF_BOUNDS);
}
END_TEST

START_TEST(options_of_a_newer_header_are_refused)
{
    const struct kvstore_add_options add = {.reserved = {1}};
    const struct kvstore_put_options put = {.reserved = {[0] = 1}};
    const struct kvstore_options open = {.create = true, .reserved = {[0] = 1}};
    struct kvstore *other;
    struct kv_error error = {0};
    ck_assert_int_eq(kvstore_add(store, KEY("new"), 1, &add, NULL, NULL), KV_UNSUPPORTED);
    ck_assert_int_eq(kvstore_put(store, KEY("new"), KEY("v"), &put, NULL), KV_UNSUPPORTED);
    ck_assert_ptr_null(get_text(store, "new"));
    ck_assert_int_eq(kvstore_open(".", &open, &other, &error), KV_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "newer version"));
    ck_assert_str_eq(kvstore_version(), MQKV_VERSION_STRING);
}
END_TEST

START_TEST(add_canonical_takes_only_what_an_add_writes)
{
    static const char *const numbers[] = {"0", "-1", "10", "9223372036854775806",
                                          "-9223372036854775808"};
    static const char *const others[] = {"00", "007", "-0", "-01", "-", "", "0x"};
    const struct kvstore_add_options canonical = {.canonical = true};
    int64_t sum;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        must_put(store, "n", numbers[i]);
        ck_assert_int_eq(kvstore_add(store, KEY("n"), 1, &canonical, &sum, NULL), KV_OK);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        must_put(store, "n", others[i]);
        ck_assert_int_eq(kvstore_add(store, KEY("n"), 1, &canonical, &sum, NULL), KV_NOT_A_NUMBER);
    }
    const struct kvstore_add_options newer = {.reserved_bytes = {[6] = 1}};
    ck_assert_int_eq(kvstore_add(store, KEY("n"), 1, &newer, &sum, NULL), KV_UNSUPPORTED);
}
END_TEST

START_TEST(add_keeps_within_its_bounds)
{
    const struct kvstore_add_options stock = {.has_min = true, .has_max = true, .max = 10};
    int64_t sum = 0;
    must_put(store, "n", "3");
    ck_assert_int_eq(kvstore_add(store, KEY("n"), -4, &stock, &sum, NULL), KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(sum, 3);
    ck_assert_int_eq(kvstore_add(store, KEY("n"), 8, &stock, &sum, NULL), KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(kvstore_add(store, KEY("n"), -3, &stock, &sum, NULL), KV_OK);
    ck_assert_int_eq(kvstore_add(store, KEY("n"), 10, &stock, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, 10);
    must_put(store, "n", "9223372036854775807");
    ck_assert_int_eq(kvstore_add(store, KEY("n"), 1, NULL, &sum, NULL), KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(sum, INT64_MAX);
    must_put(store, "n", "-9223372036854775808");
    ck_assert_int_eq(kvstore_add(store, KEY("n"), -1, NULL, &sum, NULL), KV_OUT_OF_BOUNDS);
    ck_assert_str_eq(get_text(store, "n"), "-9223372036854775808");
}
END_TEST

START_TEST(append_lengthens_the_value)
{
    uint32_t size = 0;
    ck_assert_int_eq(kvstore_append(store, KEY("log"), KEY("one"), &size, NULL), KV_OK);
    ck_assert_uint_eq(size, 3);
    ck_assert_int_eq(kvstore_append(store, KEY("log"), KEY(" two"), &size, NULL), KV_OK);
    ck_assert_uint_eq(size, 7);
    ck_assert_int_eq(kvstore_append(store, KEY("log"), KEY(""), NULL, NULL), KV_OK);
    ck_assert_str_eq(get_text(store, "log"), "one two");
}
END_TEST

START_TEST(exchange_gives_the_old_value)
{
    char buffer[4] = "";
    bool found = true;
    struct kvstore_entry entry = {0};
    ck_assert_int_eq(kvstore_exchange(store, KEY("key"), KEY("long one"), NULL, buffer,
                                      sizeof buffer, &found, &entry, NULL),
                     KV_OK);
    ck_assert(!found);
    ck_assert_int_eq(kvstore_exchange(store, KEY("key"), KEY("new"), NULL, buffer, sizeof buffer,
                                      &found, &entry, NULL),
                     KV_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(entry.value_bytes, 8);
    ck_assert_str_eq(get_text(store, "key"), "long one");
    must_put(store, "key", "old");
    ck_assert_int_eq(kvstore_exchange(store, KEY("key"), KEY("new"), NULL, buffer, sizeof buffer,
                                      &found, &entry, NULL),
                     KV_OK);
    ck_assert(found);
    ck_assert_mem_eq(buffer, "old", 3);
    ck_assert_str_eq(get_text(store, "key"), "new");
}
END_TEST

/* Space and facts ------------------------------------------------------------------------------ */

START_TEST(a_full_disk_stops_puts_but_not_deletes)
{
    const struct fault_plan full = {.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC};
    char key[32];
    int written = 0;
    fault_install(&full);
    enum kv_status status;
    do {
        snprintf(key, sizeof key, "key number %d", written);
        status = kvstore_put(store, KEY(key), KEY("some value"), NULL, NULL);
        written += status == KV_OK;
    } while (status == KV_OK);
    ck_assert_int_eq(status, KV_NO_SPACE);
    ck_assert_ptr_null(get_text(store, key));
    ck_assert_uint_eq(total_statistics(store).keys, (uint64_t)written);
    ck_assert_int_gt(written, 0);
    for (int i = 0; i < written; i++) {
        snprintf(key, sizeof key, "key number %d", i);
        ck_assert_str_eq(get_text(store, key), "some value");
        ck_assert_int_eq(kvstore_delete(store, KEY(key), 0, NULL), KV_OK);
    }
    fault_clear();
    must_put(store, "after", "room again");
    must_close(store);
    store = must_open(dir, NULL);
    ck_assert_uint_eq(total_statistics(store).keys, 1);
    ck_assert_str_eq(get_text(store, "after"), "room again");
}
END_TEST

START_TEST(statistics_tell_live_from_dead)
{
    must_put(store, "key", "value");
    struct kvstore_file_statistics one = total_statistics(store);
    ck_assert_uint_eq(one.keys, 1);
    ck_assert_uint_gt(one.live_bytes, 8);
    ck_assert_uint_eq(one.dead_bytes, 0);
    ck_assert_uint_eq(one.appended_bytes, one.live_bytes);
    must_put(store, "key", "value");
    struct kvstore_file_statistics two = total_statistics(store);
    ck_assert_uint_eq(two.live_bytes, one.live_bytes);
    ck_assert_uint_eq(two.dead_bytes, one.live_bytes);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_OK);
    struct kvstore_file_statistics none = total_statistics(store);
    ck_assert_uint_eq(none.keys, 0);
    ck_assert_uint_eq(none.live_bytes, 0);
    ck_assert_uint_gt(none.dead_bytes, two.live_bytes + two.dead_bytes);
}
END_TEST

START_TEST(tickets_name_the_keys_file_and_grow)
{
    uint64_t positions[KVSTORE_DEFAULT_DATAFILES] = {0};
    char key[24];
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "%d", i);
        struct kvstore_ticket ticket = must_put_for_ticket(store, key, "v");
        ck_assert_uint_eq(ticket.file, kvstore_file_of(store, KEY(key)));
        ck_assert_uint_gt(ticket.position, positions[ticket.file]);
        positions[ticket.file] = ticket.position;
    }
    for (uint32_t file = 0; file < KVSTORE_DEFAULT_DATAFILES; file++)
        ck_assert_uint_gt(positions[file], 0);
}
END_TEST

START_TEST(everything_is_there_after_a_restart)
{
    must_close(store);
    struct kvstore_options options = {.locking = (enum kvstore_locking)_i};
    store = must_open(dir, &options);
    char key[24], value[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "%d", i % 3000);
        snprintf(value, sizeof value, "value %d", i);
        must_put(store, key, value);
    }
    ck_assert_int_eq(kvstore_delete(store, KEY("17"), 0, NULL), KV_OK);
    struct kvstore_file_statistics before = total_statistics(store);
    must_close(store);
    store = must_open(dir, &options);
    struct kvstore_file_statistics after = total_statistics(store);
    ck_assert(after.from_checkpoint);
    ck_assert_uint_eq(after.keys, before.keys);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes);
    ck_assert_uint_eq(after.dead_bytes, before.dead_bytes);
    ck_assert_ptr_null(get_text(store, "17"));
    for (int i = 2000; i < 5000; i++) {
        snprintf(key, sizeof key, "%d", i % 3000);
        snprintf(value, sizeof value, "value %d", i);
        if (i % 3000 != 17)
            ck_assert_str_eq(get_text(store, key), value);
    }
}
END_TEST

TEST_SUITE(kvstore_store)
{
    const int conditions = sizeof condition_cases / sizeof condition_cases[0];

    TCase *operations = tcase_create("operations");
    store_case_add_open(operations);
    tcase_add_test(operations, what_is_put_is_got);
    tcase_add_test(operations, keys_have_1_to_65535_bytes);
    tcase_add_test(operations, values_have_up_to_max_value_bytes);
    tcase_add_test(operations, a_small_buffer_is_told_the_size);
    tcase_add_loop_test(operations, conditions_of_a_put, 0, conditions);
    tcase_add_loop_test(operations, conditions_of_an_exchange, 0, conditions);
    tcase_add_test(operations, versions_grow_with_every_write);
    tcase_add_test(operations, a_delete_may_ask_for_a_version);
    tcase_add_test(operations, add_counts);
    tcase_add_test(operations, add_from_zeros_has_no_bounds_and_creates);
    tcase_add_test(operations, options_of_a_newer_header_are_refused);
    tcase_add_test(operations, add_canonical_takes_only_what_an_add_writes);
    tcase_add_test(operations, add_keeps_within_its_bounds);
    tcase_add_test(operations, append_lengthens_the_value);
    tcase_add_test(operations, exchange_gives_the_old_value);
    tcase_add_test(operations, a_full_disk_stops_puts_but_not_deletes);
    tcase_add_test(operations, statistics_tell_live_from_dead);
    tcase_add_test(operations, tickets_name_the_keys_file_and_grow);
    tcase_add_loop_test(operations, everything_is_there_after_a_restart, 0, locking_count());
    tcase_set_timeout(operations, 60);
    suite_add_tcase(suite, operations);
    TCase *keeping = tcase_create("a file that is kept");
    store_case_add(keeping);
    tcase_add_test(keeping, a_file_that_is_kept_is_told_of_as_it_was);
    suite_add_tcase(suite, keeping);
}
