/*
 * Large records, which are verified once (kvstore/format/verified_bitmap.h).
 */
#include "kvstore/format/verified_bitmap.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/report/log.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

static char dir[STORE_DIR_BYTES];

static void set_up(void)
{
    store_dir_make(dir);
}

static void tear_down(void)
{
    store_dir_remove(dir);
}

#define SMALL_KEY        "small"
#define LARGE_KEY        "large"
#define LARGE_BYTES      (3 * VERIFIED_MIN_BYTES)
#define SMALL_BYTES      (VERIFIED_MIN_BYTES - RECORD_HEADER_BYTES - sizeof SMALL_KEY - 7)
#define SMALL_VALUE_AT   (FILE_HEADER_BYTES + 100)
#define LARGE_VALUE_AT   (FILE_HEADER_BYTES + VERIFIED_MIN_BYTES + 100)
#define LARGE_OTHER_PAGE (LARGE_VALUE_AT + 16384)

static enum kv_status get_large(struct kvstore *store, const char *key)
{
    static char value[LARGE_BYTES];
    return kvstore_get(store, KEY(key), value, sizeof value, NULL);
}

/* One record just below the size that is noted, and a large one behind it, in an extent or not. */
static struct kvstore *open_with_large(bool in_extent, bool verify_every_read)
{
    static const char value[LARGE_BYTES];
    /* A value that is given its version is not placed. */
    const struct kvstore_put_options given = {.give_version = in_extent ? 0 : 10};
    const struct kvstore_options options = {
        .create = true, .datafiles = 1, .verify_every_read = verify_every_read};
    struct kvstore *store = must_open(dir, &options);
    ck_assert_int_eq(kvstore_put(store, KEY(SMALL_KEY), kv_slice(value, SMALL_BYTES), NULL, NULL),
                     KV_OK);
    ck_assert_int_eq(
        kvstore_put(store, KEY(LARGE_KEY), kv_slice(value, sizeof value), &given, NULL), KV_OK);
    return store;
}

START_TEST(a_large_record_that_was_written_here_is_not_verified_again)
{
    struct kvstore *store = open_with_large(_i == 1, false);
    store_file_flip(dir, SMALL_VALUE_AT);
    store_file_flip(dir, LARGE_VALUE_AT);
    ck_assert_int_eq(get_large(store, SMALL_KEY), KV_CORRUPT);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_OK);
    must_close(store);
}
END_TEST

START_TEST(every_read_verifies_if_asked_to)
{
    struct kvstore *store = open_with_large(_i == 1, true);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_OK);
    store_file_flip(dir, LARGE_VALUE_AT);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_CORRUPT);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_CORRUPT);
    must_close(store);
}
END_TEST

/* The checkpoint spares the open the reading. */
START_TEST(a_large_record_is_verified_when_it_is_first_read)
{
    must_close(open_with_large(_i == 1, false));
    store_file_flip(dir, LARGE_VALUE_AT);
    struct kvstore *store = must_open(dir, &(struct kvstore_options){0});
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_CORRUPT);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_CORRUPT); /* it is not noted for that */
    store_file_flip(dir, LARGE_VALUE_AT);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_OK);
    store_file_flip(dir, LARGE_OTHER_PAGE);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_OK);
    must_close(store);
}
END_TEST

/* The kernel may have dropped what it could not write. */
START_TEST(after_a_failed_sync_every_read_verifies)
{
    struct kvstore *store = open_with_large(_i == 1, false);
    log_set_level(LOG_LEVEL_ERROR - 1);
    fault_install(
        &(struct fault_plan){.call = FAULT_SYNC_DATA, .nth = 1, .length = 1, .error = EIO});
    ck_assert_int_eq(kvstore_sync(store), KV_NOT_DURABLE);
    fault_clear();
    store_file_flip(dir, LARGE_VALUE_AT);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_CORRUPT);
    kvstore_close(store, NULL);
}
END_TEST

/* What was noted as sound is not copied unseen: the copy would have a checksum that holds. */
START_TEST(compaction_verifies_the_large_records_that_it_copies)
{
    struct kvstore *store = open_with_large(_i == 1, false);
    struct kv_error error = {0};
    store_file_flip(dir, LARGE_VALUE_AT);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_OK);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_CORRUPT);
    must_close(store);
}
END_TEST

/* By its key the record is not found in the index: it must not pass for a dead one. */
START_TEST(compaction_does_not_lose_a_large_record_whose_key_is_damaged)
{
    struct kvstore *store = open_with_large(false, false);
    struct kv_error error = {0};
    const off_t key_at = FILE_HEADER_BYTES + record_size(sizeof SMALL_KEY - 1, SMALL_BYTES, false) +
                         RECORD_HEADER_BYTES;
    store_file_flip(dir, key_at);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_CORRUPT);
    ck_assert_msg(strstr(error.text, "data.0000") != NULL, "%s", error.text);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_CORRUPT);
    store_file_flip(dir, key_at);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_OK);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_OK);
    must_close(store);
}
END_TEST

START_TEST(compaction_does_not_read_large_values_that_are_dead)
{
    static const char value[LARGE_BYTES];
    struct kvstore *store = open_with_large(_i == 1, false);
    ck_assert_int_eq(kvstore_put(store, KEY(LARGE_KEY), kv_slice(value, sizeof value), NULL, NULL),
                     KV_OK);
    store_file_flip(dir, LARGE_VALUE_AT); /* of the first put */
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    ck_assert_int_eq(get_large(store, LARGE_KEY), KV_OK);
    ck_assert_int_eq(get_large(store, SMALL_KEY), KV_OK);
    must_close(store);
}
END_TEST

TEST_SUITE(kvstore_verified)
{
    TCase *tests = tcase_create("verified");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_large_record_that_was_written_here_is_not_verified_again, 0, 2);
    tcase_add_loop_test(tests, every_read_verifies_if_asked_to, 0, 2);
    tcase_add_loop_test(tests, a_large_record_is_verified_when_it_is_first_read, 0, 2);
    tcase_add_loop_test(tests, after_a_failed_sync_every_read_verifies, 0, 2);
    tcase_add_loop_test(tests, compaction_verifies_the_large_records_that_it_copies, 0, 2);
    tcase_add_test(tests, compaction_does_not_lose_a_large_record_whose_key_is_damaged);
    tcase_add_loop_test(tests, compaction_does_not_read_large_values_that_are_dead, 0, 2);
    suite_add_tcase(suite, tests);
}
