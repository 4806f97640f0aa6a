/* Entries that expire: absent for every call from then on, and taken out by the sweeper. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "mqkv/kvstore.h"
#include "tests/support/fault.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

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

static struct kvstore_file_statistics statistics_of(uint32_t file)
{
    struct kvstore_file_statistics statistics;
    kvstore_file_statistics(store, file, &statistics);
    return statistics;
}

static bool second_file_is_swept(void *context)
{
    (void)context;
    return statistics_of(1).expiring_keys == 0;
}

/* Of one segment of the index more expires than goes under one hold of the lock, and each entry
 * would get a record. */
START_TEST(the_sweeper_leaves_a_file_that_takes_no_writes)
{
    static char value[8192];
    const struct kvstore_options two_files = {.create = true,
                                              .datafiles = 2,
                                              .durability = KVSTORE_SYNC_NONE,
                                              .compact_dead_percent = 100,
                                              .sweep_interval_ms = 5,
                                              .keep_changes_ms = 3600000};
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 2000};
    struct kvstore_ticket of_first = {0};
    must_close(store);
    store = must_open(copy_dir, &two_files);
    for (int i = 0; i < 600; i++) {
        struct kvstore_written written;
        ck_assert_int_eq(kvstore_put(store, KEY(numbered("key", i)), kv_slice(value, sizeof value),
                                     &soon, &written),
                         KV_OK);
        if (written.ticket.file == 0)
            of_first = written.ticket;
    }
    fault_install(&(struct fault_plan){.call = FAULT_SYNC_DATA, .nth = 1, .error = EIO});
    ck_assert_int_eq(kvstore_wait_durable(store, of_first), KV_NOT_DURABLE);
    fault_clear();
    ck_assert(wait_until(second_file_is_swept, NULL));
    ck_assert_uint_gt(statistics_of(1).expired, 200);
    ck_assert_uint_eq(statistics_of(0).expired, 0);
    ck_assert_uint_gt(statistics_of(0).expiring_keys, 200);
    ck_assert_int_eq(kvstore_close(store, NULL), KV_NOT_DURABLE);
    store = NULL;
}
END_TEST

/* What somebody who follows the changes has heard of. */
struct heard {
    struct kvstore_position position;
    unsigned expiries;
    bool missed;
};

static bool hear(void *context, const struct kvstore_change *change)
{
    struct heard *heard = context;
    heard->expiries += change->kind == KVSTORE_CHANGE_EXPIRE;
    return true;
}

static bool has_heard_of_three(void *context)
{
    struct heard *heard = context;
    bool at_end = false;
    enum kv_status status = KV_OK;
    while (status == KV_OK && !at_end)
        status = kvstore_changes(store, 0, &heard->position, kv_slice(NULL, 0), 100, hear, heard,
                                 &at_end);
    heard->missed = status == KV_MISSED;
    ck_assert(status == KV_OK || heard->missed);
    return heard->missed || heard->expiries == 3;
}

/* Nobody keeps changes, and no index is left: the log is read. */
START_TEST(what_expires_after_a_kill_is_told_to_who_follows)
{
    const struct kvstore_options patient = {.sweep_interval_ms = 3600000};
    const struct kvstore_options eager = {.sweep_interval_ms = 5};
    uint64_t soon_ms = clock_realtime_ms() + 300;
    struct heard heard = {0};
    int status;
    ck_assert_int_eq(kvstore_changes_now(store, 0, &heard.position), KV_OK);
    must_close(store);
    pid_t child = fork();
    if (child == 0) {
        store = must_open(dir, &patient);
        for (int i = 0; i < 3; i++)
            put_expiring(numbered("key", i), soon_ms);
        kill(getpid(), SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (clock_realtime_ms() <= soon_ms)
        clock_sleep_ms(1);
    store = must_open(dir, &eager);
    ck_assert(!total_statistics(store).from_checkpoint);
    ck_assert(wait_until(has_heard_of_three, &heard));
    ck_assert_ptr_null(get_text(store, "key 0"));
    ck_assert(wait_until(nothing_expires, store));
}
END_TEST

TEST_SUITE(kvstore_expiry)
{
    TCase *tests = tcase_create("expiry");
    one_file_case_add(tests);
    tcase_add_test(tests, an_expired_entry_is_absent_for_every_call);
    tcase_add_test(tests, an_entry_is_there_until_it_expires);
    tcase_add_test(tests, which_writes_keep_the_expiry);
    tcase_add_test(tests, the_sweeper_takes_expired_entries_out);
    tcase_add_test(tests, the_sweeper_leaves_a_file_that_takes_no_writes);
    tcase_add_test(tests, what_expires_after_a_kill_is_told_to_who_follows);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
}
