/* Logs that a compaction has replaced, and which are kept for those who follow the changes. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "mqkv/kvstore.h"
#include "tests/support/fault.h"
#include "tests/support/follower.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

/* The compactor's thread removes what is above the bound soon, not at once. */
static bool past_logs_are_few(void *most)
{
    return past_logs_there() <= *(unsigned *)most;
}

static void must_become_few(unsigned most)
{
    ck_assert_msg(wait_until(past_logs_are_few, &most), "%u past logs, more than %u",
                  past_logs_there(), most);
}

START_TEST(past_logs_go_when_their_bound_is_reached)
{
    struct follower follower;
    struct kvstore_options options = keeping_changes;
    options.keep_changes_bytes = 1u << 20;
    must_reopen(&options);
    follower_start(&follower, store);
    static char big[300000];
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 8; i++) {
        must_put(store, "key 1", big);
        must_compact();
        must_become_few(3);
    }
    ck_assert_int_eq(follower_catch_up(&follower, store), KV_MISSED);
    follower_start(&follower, store);
    follower_must_catch_up(&follower);
    /* A full disk takes them all. */
    ck_assert_uint_gt(past_logs_there(), 0);
    fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC});
    enum kv_status status = KV_OK;
    for (int i = 0; i < 1000 && status == KV_OK; i++)
        status = kvstore_put(store, KEY("key 2"), KEY(big), NULL, NULL);
    fault_clear();
    ck_assert_int_eq(status, KV_NO_SPACE);
    must_become_few(0);
    follower_must_catch_up(&follower);
}
END_TEST

static void overwrite_all(void)
{
    static char big[300000];
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 8; i++)
        must_put(store, numbered("key", i), big);
}

START_TEST(the_newest_past_log_is_kept_if_that_is_asked_for)
{
    struct follower follower;
    struct kvstore_options options = keeping_changes;
    options.keep_changes_bytes = 1u << 20;
    for (int keep = 0; keep < 2; keep++) {
        options.keep_newest_log = keep;
        must_reopen(&options);
        follower_start(&follower, store);
        overwrite_all();
        must_compact();
        overwrite_all();
        must_become_few((unsigned)keep);
        ck_assert_uint_eq(past_logs_there(), (unsigned)keep);
        ck_assert_int_eq(follower_catch_up(&follower, store), keep ? KV_OK : KV_MISSED);
    }
    follower_check(&follower, store);
    for (int i = 0; i < 3; i++) {
        must_compact();
        must_put(store, "key 1", "x");
        follower_must_catch_up(&follower);
    }
    must_compact();
    must_reopen(&options);
    follower_must_catch_up(&follower);
    must_become_few(1);
    ck_assert_uint_eq(past_logs_there(), 1);
}
END_TEST

/* Of several that were replaced within a tick of the clock. */
START_TEST(a_start_knows_the_newest_past_log)
{
    struct follower follower;
    struct kvstore_options options = keeping_changes;
    options.keep_newest_log = true;
    for (int round = 0; round < 4; round++) {
        options.keep_changes_bytes = 1u << 30;
        must_reopen(&options);
        for (int i = 0; i < 4; i++) {
            overwrite_all();
            must_compact();
        }
        follower_start(&follower, store);
        must_put(store, "key 1", "x");
        must_compact();
        options.keep_changes_bytes = 1u << 20;
        must_reopen(&options);
        must_become_few(1);
        follower_must_catch_up(&follower);
    }
}
END_TEST

/* Small ones, of which many are replaced within a tick. */
START_TEST(the_oldest_go_first_though_their_times_are_equal)
{
    struct follower follower;
    struct kvstore_options options = keeping_changes;
    options.keep_newest_log = true;
    for (int round = 0; round < 10; round++) {
        options.keep_changes_bytes = 1u << 30;
        must_reopen(&options);
        for (int i = 0; i < 12; i++) {
            must_put(store, "key 1", "x");
            must_compact();
        }
        follower_start(&follower, store);
        must_put(store, "key 2", "x");
        must_compact();
        options.keep_changes_bytes = 1;
        must_reopen(&options);
        must_become_few(1);
        follower_must_catch_up(&follower);
    }
}
END_TEST

TEST_SUITE(kvstore_past_logs)
{
    TCase *tests = tcase_create("past logs");
    tcase_set_timeout(tests, 600);
    one_file_case_add(tests);
    tcase_add_test(tests, past_logs_go_when_their_bound_is_reached);
    tcase_add_test(tests, the_newest_past_log_is_kept_if_that_is_asked_for);
    tcase_add_test(tests, a_start_knows_the_newest_past_log);
    tcase_add_test(tests, the_oldest_go_first_though_their_times_are_equal);
    suite_add_tcase(suite, tests);
}
