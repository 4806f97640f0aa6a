#include "kvstore/maintenance/holds.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text)   kv_slice_from_string(text)
#define PIECE_BYTES 7000u /* no page, no record */

static struct kvstore_hold *must_hold(void)
{
    struct kvstore_hold *hold;
    struct kv_error error = {0};
    ck_assert_msg(kvstore_hold_begin(store, &hold, &error) == KV_OK, "%s", error.text);
    return hold;
}

/* Writes what the hold reads to copy_dir, and opens that. */
static struct kvstore *open_held(struct kvstore_hold *hold)
{
    char path[STORE_DIR_BYTES + 16];
    uint8_t piece[PIECE_BYTES];
    struct kvstore_held_file file;
    size_t got;
    kvstore_hold_file(hold, 0, &file);
    snprintf(path, sizeof path, "%s/data.0000", copy_dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    for (uint64_t offset = 0; offset < file.bytes; offset += got) {
        ck_assert_int_eq(kvstore_hold_read(hold, 0, offset, piece, sizeof piece, &got), KV_OK);
        ck_assert_uint_gt(got, 0);
        ck_assert_int_eq(write(fd, piece, got), (ssize_t)got);
    }
    close(fd);
    return must_open(copy_dir, &one_file);
}

START_TEST(it_reads_what_was_there_whatever_happens_since)
{
    put_round(2000, 0);
    must_put(store, "key", "old");
    struct kvstore_hold *hold = must_hold();
    put_round(2000, 1);
    must_put(store, "key", "new");
    must_compact();
    put_round(2000, 2);
    must_compact();
    usleep(300000); /* longer than replaced logs are kept without a hold */
    struct kvstore *copy = open_held(hold);
    kvstore_hold_end(hold);
    check_round(copy, 2000, 0);
    ck_assert_str_eq(get_text(copy, "key"), "old");
    must_close(copy);
    check_round(store, 2000, 2);
}
END_TEST

START_TEST(the_copy_is_known_to_be_on_disk_to_its_end)
{
    put_round(100, 0);
    struct kvstore_hold *hold = must_hold();
    struct kvstore *copy = open_held(hold);
    kvstore_hold_end(hold);
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_put(copy, KEY("key 1"), KEY("x"), NULL, &written), KV_OK);
    ck_assert_uint_gt(written.version, 100);
    must_close(copy);
    if (have_kvcheck()) {
        char output[2000];
        ck_assert_int_eq(run_kvcheck(copy_dir, NULL, NULL, output, sizeof output), 0);
    }
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    uint8_t bytes[16];
    size_t got;
    struct kvstore_held_file file;
    must_put(store, "key", "value");
    struct kvstore_hold *hold = must_hold();
    kvstore_hold_file(hold, 0, &file);
    ck_assert_int_eq(kvstore_hold_read(hold, 1, 0, bytes, sizeof bytes, &got), KV_USAGE);
    ck_assert_int_eq(kvstore_hold_read(hold, 0, file.bytes + 1, bytes, 1, &got), KV_USAGE);
    ck_assert_int_eq(kvstore_hold_read(hold, 0, UINT64_MAX, bytes, 1, &got), KV_USAGE);
    ck_assert_int_eq(kvstore_hold_read(hold, 0, file.bytes, bytes, 1, &got), KV_OK);
    ck_assert_uint_eq(got, 0);
    must_put(store, "key", "later");
    ck_assert_int_eq(kvstore_hold_read(hold, 0, file.bytes - 4, bytes, sizeof bytes, &got), KV_OK);
    ck_assert_uint_eq(got, 4);
    kvstore_hold_end(hold);
    kvstore_hold_end(NULL);
}
END_TEST

START_TEST(a_hold_that_is_not_touched_lapses)
{
    struct listed_hold one = {0}, other = {0};
    struct holds *holds = holds_create();
    ck_assert(!holds_any(holds));
    holds_add(holds, &one);
    holds_add(holds, &other);
    ck_assert(holds_any(holds) && holds_touch(holds, &one));
    other.touched_ns -= HOLD_LAPSE_NS + 1;
    ck_assert(holds_any(holds));
    ck_assert(holds_touch(holds, &one) && !holds_touch(holds, &other));
    one.touched_ns -= HOLD_LAPSE_NS + 1;
    ck_assert(holds_touch(holds, &one)); /* nobody has looked: nothing was freed */
    one.touched_ns -= HOLD_LAPSE_NS + 1;
    ck_assert(!holds_any(holds));
    ck_assert(!holds_touch(holds, &one));
    holds_remove(holds, &one);
    holds_remove(holds, &other);
    ck_assert(!holds_any(holds));
    holds_free(holds);
}
END_TEST

static uint64_t put_version(const char *key, uint64_t version)
{
    struct kvstore_put_options options = {.give_version = version};
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_put(store, KEY(key), KEY("x"), &options, &written), KV_OK);
    return written.version;
}

START_TEST(an_entry_gets_the_version_that_it_is_given)
{
    ck_assert_uint_eq(put_version("a", 500), 500);
    ck_assert_uint_eq(put_version("b", 7), 7); /* below others, but nothing was there */
    ck_assert_uint_eq(put_version("c", 7), 7);
    ck_assert_uint_eq(must_put(store, "d", "x"), 501);
    ck_assert_uint_eq(put_version("a", 7), 502); /* it is there with a higher one */
    ck_assert_uint_eq(put_version("e", 7), 503); /* it may have been, as far as the file tells */
    ck_assert_uint_eq(put_version("e", 600), 600);
    struct kvstore_put_options options = {.give_version = KVSTORE_MAX_GIVEN_VERSION + 1};
    ck_assert_int_eq(kvstore_put(store, KEY("a"), KEY("x"), &options, NULL), KV_USAGE);
    struct kvstore_entry entry;
    struct kvstore *copy = open_copy();
    ck_assert_int_eq(get_entry(copy, "b", &entry), KV_OK);
    ck_assert_uint_eq(entry.version, 7);
    must_close(copy);
}
END_TEST

TEST_SUITE(kvstore_hold)
{
    TCase *tests = tcase_create("hold");
    one_file_case_add(tests);
    tcase_add_test(tests, it_reads_what_was_there_whatever_happens_since);
    tcase_add_test(tests, the_copy_is_known_to_be_on_disk_to_its_end);
    tcase_add_test(tests, what_is_not_there_is_refused);
    tcase_add_test(tests, a_hold_that_is_not_touched_lapses);
    tcase_add_test(tests, an_entry_gets_the_version_that_it_is_given);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
}
