/* Recovery of a log whose end is torn, and of one that is damaged before its end. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "tests/support/one_file_store.h"
#include "tests/support/other_boot.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

/* Torn tails ----------------------------------------------------------------------------------- */

/* Images of a store whose log is not synced at all: header, records, zeros. */
static struct image take_unsynced(uint64_t *tail)
{
    struct image image;
    struct kvstore_file_statistics total = total_statistics(store);
    ck_assert_uint_eq(total.synced_bytes, 0);
    *tail = FILE_HEADER_BYTES + total.live_bytes + total.dead_bytes;
    image_take(&image, dir);
    return image;
}

/* The copy as it is after a kill -9 at this moment. */
static struct kvstore *open_again(struct kvstore *copy)
{
    struct image image;
    image_take(&image, copy_dir);
    must_close(copy);
    image_put(&image, copy_dir);
    image_free(&image);
    return must_open(copy_dir, NULL);
}

START_TEST(a_torn_tail_is_cut_and_counted)
{
    uint64_t tail;
    must_put_numbers(store, 0, 10);
    struct image image = take_unsynced(&tail);
    memset(image_find(&image, "data.0000")->bytes + tail, 0xa5, 777);
    image_put(&image, copy_dir);
    image_free(&image);
    struct kvstore *copy = must_open(copy_dir, NULL);
    ck_assert_uint_eq(total_statistics(copy).recovered_bytes_cut, 777);
    check_numbers(copy, 0, 10);
    must_put(copy, "new", "after the cut");
    copy = open_again(copy);
    ck_assert_uint_eq(total_statistics(copy).recovered_bytes_cut, 0);
    ck_assert_uint_eq(total_statistics(copy).keys, 11);
    must_close(copy);
}
END_TEST

/* A power cut may lose a page and keep the next. What lies behind the gap must not come back when
 * later records fill the gap exactly. */
START_TEST(a_record_behind_a_gap_does_not_rise_again)
{
    uint64_t gap_start, tail;
    must_put_numbers(store, 0, 10);
    struct kvstore_file_statistics total = total_statistics(store);
    gap_start = FILE_HEADER_BYTES + total.live_bytes;
    must_put(store, "lost", "12345678");
    total = total_statistics(store);
    uint64_t gap_end = FILE_HEADER_BYTES + total.live_bytes;
    must_put(store, "zombie", "boo");
    struct image image = take_unsynced(&tail);
    memset(image_find(&image, "data.0000")->bytes + gap_start, 0, gap_end - gap_start);
    image_put(&image, copy_dir);
    image_free(&image);

    other_boot_install();
    struct kvstore *copy = must_open(copy_dir, NULL);
    other_boot_clear();
    ck_assert_uint_gt(total_statistics(copy).recovered_bytes_cut, 0);
    ck_assert_ptr_null(get_text(copy, "zombie"));
    must_put(copy, "good", "12345678");
    copy = open_again(copy);
    ck_assert_str_eq(get_text(copy, "good"), "12345678");
    ck_assert_ptr_null(get_text(copy, "zombie"));
    must_close(copy);
}
END_TEST

START_TEST(read_only_reads_up_to_a_torn_tail)
{
    const struct kvstore_options reader = {.read_only = true};
    uint64_t tail;
    must_put_numbers(store, 0, 10);
    struct image image = take_unsynced(&tail);
    memset(image_find(&image, "data.0000")->bytes + tail, 0xa5, 100);
    image_put(&image, copy_dir);
    struct kvstore *copy = must_open(copy_dir, &reader);
    check_numbers(copy, 0, 10);
    ck_assert_uint_eq(total_statistics(copy).recovered_bytes_cut, 100);
    must_close(copy);
    struct image after;
    image_take(&after, copy_dir);
    ck_assert_mem_eq(image_find(&after, "data.0000")->bytes, image_find(&image, "data.0000")->bytes,
                     image_find(&image, "data.0000")->size);
    image_free(&after);
    image_free(&image);
}
END_TEST

/* Damage --------------------------------------------------------------------------------------- */

static void expect_corrupt(const struct image *image, const char *offset_text)
{
    struct kv_error error = {0};
    struct kvstore *none;
    image_put(image, copy_dir);
    ck_assert_int_eq(kvstore_open(copy_dir, NULL, &none, &error), KV_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "data.0000"));
    ck_assert_ptr_nonnull(strstr(error.text, "kvcheck --salvage OUT"));
    ck_assert_ptr_nonnull(strstr(error.text, copy_dir));
    ck_assert_msg(strstr(error.text, offset_text) != NULL, "%s", error.text);
}

START_TEST(damage_before_the_synced_offset_is_refused)
{
    must_put_numbers(store, 0, 10);
    uint64_t damaged_at = FILE_HEADER_BYTES + total_statistics(store).live_bytes;
    char offset_text[32];
    snprintf(offset_text, sizeof offset_text, "offset %llu", (unsigned long long)damaged_at);
    must_put_numbers(store, 10, 20);
    must_close(store);
    store = NULL;
    struct image image;
    image_take(&image, dir);
    image_find(&image, "data.0000.index")->name[0] = 'x';
    struct image_file *log = image_find(&image, "data.0000");
    log->bytes[damaged_at + 9] ^= 1;
    expect_corrupt(&image, offset_text);
    memset(log->bytes + damaged_at, 0, 40);
    expect_corrupt(&image, offset_text);
    log->size = damaged_at;
    expect_corrupt(&image, offset_text);
    image_free(&image);
}
END_TEST

START_TEST(a_damaged_header_is_refused)
{
    must_put(store, "key", "value");
    must_close(store);
    store = NULL;
    struct image image;
    image_take(&image, dir);
    image_find(&image, "data.0000")->bytes[17] ^= 4;
    expect_corrupt(&image, "offset 0");
    image_find(&image, "data.0000")->bytes[17] ^= 4;
    image_find(&image, "data.0000")->size = 100;
    expect_corrupt(&image, "100 bytes");
    image_free(&image);
}
END_TEST

START_TEST(one_of_the_two_progress_slots_may_be_damaged)
{
    must_put_numbers(store, 0, 10);
    must_close(store);
    store = NULL;
    struct image image;
    image_take(&image, dir);
    image_find(&image, "data.0000")->bytes[_i == 0 ? 520 : 1030] ^= 0x10;
    image_put(&image, copy_dir);
    struct kvstore *copy = must_open(copy_dir, NULL);
    check_numbers(copy, 0, 10);
    must_close(copy);
    image_find(&image, "data.0000")->bytes[_i == 0 ? 1030 : 520] ^= 0x10;
    expect_corrupt(&image, "offset 512");
    image_free(&image);
}
END_TEST

/* Valid, but no store gets so far, and no version above could be given. */
START_TEST(a_version_that_nothing_can_follow_is_refused)
{
    uint64_t tail;
    struct image image = take_unsynced(&tail);
    struct image_file *log = image_find(&image, "data.0000");
    struct file_identity identity;
    ck_assert_int_eq(fileheader_read_identity(log->bytes, &identity), FILEHEADER_VALID);
    const struct record record = {
        .kind = RECORD_PUT, .version = RECORD_VERSION_LIMIT - 1, .key = KEY("k")};
    record_write(log->bytes + tail, &record, kv_slice(NULL, 0), identity.salt, tail);
    expect_corrupt(&image, "impossible version");
    struct image after;
    image_take(&after, copy_dir);
    ck_assert_mem_eq(image_find(&after, "data.0000")->bytes, log->bytes, log->size);
    image_free(&after);
    image_free(&image);
}
END_TEST

TEST_SUITE(kvstore_torn)
{
    TCase *tests = tcase_create("torn");
    one_file_case_add(tests);
    tcase_add_test(tests, a_torn_tail_is_cut_and_counted);
    tcase_add_test(tests, a_record_behind_a_gap_does_not_rise_again);
    tcase_add_test(tests, read_only_reads_up_to_a_torn_tail);
    tcase_add_test(tests, damage_before_the_synced_offset_is_refused);
    tcase_add_test(tests, a_damaged_header_is_refused);
    tcase_add_loop_test(tests, one_of_the_two_progress_slots_may_be_damaged, 0, 2);
    tcase_add_test(tests, a_version_that_nothing_can_follow_is_refused);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
