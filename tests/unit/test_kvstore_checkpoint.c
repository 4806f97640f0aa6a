#include "kvstore/table/checkpoint.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/time/clock.h"
#include "common/memory/cursor.h"
#include "common/numbers/random.h"
#include "mqkv/kvstore.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

START_TEST(a_checkpoint_is_used_once)
{
    must_put_numbers(store, 0, 1000);
    must_close(store);
    store = must_open(dir, NULL);
    ck_assert(total_statistics(store).from_checkpoint);
    check_numbers(store, 0, 1000);
    struct image image;
    image_take(&image, dir);
    ck_assert_ptr_null(image_find(&image, "data.0000.index"));
    image_free(&image);
}
END_TEST

START_TEST(a_checkpoint_of_an_older_log_is_ignored)
{
    must_put_numbers(store, 0, 100);
    must_close(store);
    struct image older;
    image_take(&older, dir);
    store = must_open(dir, NULL);
    must_put_numbers(store, 50, 150);
    struct image newer;
    image_take(&newer, dir);
    newer.files[newer.count++] = *image_find(&older, "data.0000.index");
    image_put(&newer, copy_dir);
    newer.count--;
    image_free(&newer);
    image_free(&older);
    struct kvstore *copy = must_open(copy_dir, NULL);
    ck_assert(!total_statistics(copy).from_checkpoint);
    ck_assert_uint_eq(total_statistics(copy).keys, 150);
    check_numbers(copy, 0, 150);
    must_close(copy);
}
END_TEST

/* As a copy may be that leaves out what is allocated but not used. */
START_TEST(a_log_that_ends_with_its_last_record_keeps_its_checkpoint)
{
    struct kvstore_options options = {.io = (enum kvstore_io)_i};
    must_put_numbers(store, 0, 100);
    uint64_t log_bytes = FILE_HEADER_BYTES + total_statistics(store).live_bytes;
    must_close(store);
    store = NULL;
    struct image image;
    image_take(&image, dir);
    image_find(&image, "data.0000")->size = log_bytes;
    image_put(&image, copy_dir);
    image_free(&image);
    struct kvstore *copy = must_open(copy_dir, &options);
    ck_assert(total_statistics(copy).from_checkpoint);
    check_numbers(copy, 0, 100);
    must_put_numbers(copy, 100, 101);
    must_close(copy);
}
END_TEST

/* And one in which there is no record, recovered by reading. */
START_TEST(a_log_that_ends_with_its_header_is_empty)
{
    struct kvstore_options options = {.io = (enum kvstore_io)_i};
    struct image image;
    image_take(&image, dir);
    image_find(&image, "data.0000")->size = FILE_HEADER_BYTES;
    image_put(&image, copy_dir);
    image_free(&image);
    struct kvstore *copy = must_open(copy_dir, &options);
    ck_assert_uint_eq(total_statistics(copy).keys, 0);
    must_put_numbers(copy, 0, 10);
    must_close(copy);
}
END_TEST

START_TEST(a_damaged_checkpoint_is_ignored)
{
    must_put_numbers(store, 0, 700);
    must_close(store);
    store = NULL;
    struct image image;
    image_take(&image, dir);
    struct image_file *checkpoint = image_find(&image, "data.0000.index");
    for (size_t at = 0; at < checkpoint->size; at += 1 + checkpoint->size / 40) {
        checkpoint->bytes[at] ^= 0x41;
        image_put(&image, copy_dir);
        checkpoint->bytes[at] ^= 0x41;
        struct kvstore *copy = must_open(copy_dir, NULL);
        ck_assert(!total_statistics(copy).from_checkpoint);
        ck_assert_uint_eq(total_statistics(copy).keys, 700);
        must_close(copy);
    }
    checkpoint->size -= 3;
    image_put(&image, copy_dir);
    image_free(&image);
    struct kvstore *copy = must_open(copy_dir, NULL);
    ck_assert(!total_statistics(copy).from_checkpoint);
    check_numbers(copy, 0, 700);
    must_close(copy);
}
END_TEST

/* Forgeries: the checksum is right, one field of the header is not ----------------------------- */

enum {
    SALT_AT = 16,
    MAX_VERSION_AT = 32,
    LIVE_BYTES_AT = 40,
    EXPIRING_KEYS_AT = 48,
    RESERVE_BYTES_AT = 56,
    KEYS_AT = 64
};

static void forge(size_t field_at, uint64_t number)
{
    struct image image;
    image_take(&image, dir);
    struct image_file *checkpoint = image_find(&image, "data.0000.index");
    size_t checked_bytes = checkpoint->size - sizeof(uint64_t);
    store_u64(checkpoint->bytes + field_at, number);
    store_u64(checkpoint->bytes + checked_bytes,
              XXH3_64bits_withSeed(checkpoint->bytes, checked_bytes,
                                   load_u64(checkpoint->bytes + SALT_AT)));
    image_put(&image, dir);
    image_free(&image);
}

static const struct {
    size_t field_at;
    uint64_t number;
} forgeries[] = {
    {MAX_VERSION_AT, UINT64_MAX},
    {MAX_VERSION_AT, INT64_MAX},
    {LIVE_BYTES_AT, UINT64_MAX},
    {LIVE_BYTES_AT, 0},
    {EXPIRING_KEYS_AT, 101},
    {RESERVE_BYTES_AT, UINT64_MAX - 40000},
    {RESERVE_BYTES_AT, UINT64_C(1) << 40},
    {RESERVE_BYTES_AT, 0},
    {KEYS_AT, UINT64_MAX},
};

START_TEST(impossible_numbers_are_ignored)
{
    static const char value[70000];
    must_put_numbers(store, 0, 100);
    must_close(store);
    forge(forgeries[_i].field_at, forgeries[_i].number);
    store = must_open(dir, NULL);
    ck_assert(!total_statistics(store).from_checkpoint);
    ck_assert_int_eq(kvstore_put(store, KEY("big"), kv_slice(value, sizeof value), NULL, NULL),
                     KV_OK);
    check_numbers(store, 0, 100);
}
END_TEST

START_TEST(sums_that_are_too_low_do_not_wrap)
{
    must_put_numbers(store, 0, 100);
    must_close(store);
    forge(LIVE_BYTES_AT, 100 * 32);
    store = must_open(dir, NULL);
    ck_assert(total_statistics(store).from_checkpoint);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(kvstore_delete(store, KEY(numbered("key", i)), 0, NULL), KV_OK);
    ck_assert_uint_eq(total_statistics(store).live_bytes, 0);
}
END_TEST

/* Many keys ------------------------------------------------------------------------------------ */

static struct arena *arena;
static struct shared_generation words;

static void begin_index(struct generation *generation)
{
    arena = arena_create(-1, SHARED_STORE_HEADER_BYTES);
    ck_assert_ptr_nonnull(arena);
    ck_assert_int_eq(generation_begin_index(generation, arena), KV_OK);
}

static void free_both(struct generation *generation)
{
    generation_free(generation);
    arena_free(arena);
}

static struct generation *empty_generation(int dir_fd, uint64_t room_bytes)
{
    const struct file_identity identity = {
        .format_version = FILE_FORMAT_VERSION, .datafiles = 1, .salt = 17};
    struct logfile log;
    struct generation *generation;
    ck_assert_int_eq(
        logfile_create(&log, KVSTORE_IO_MMAP, dir_fd, "log", &identity, 0, room_bytes, NULL),
        KV_OK);
    ck_assert_int_eq(generation_create(log, &words, &generation), KV_OK);
    begin_index(generation);
    return generation;
}

/* The items come in ascending order of hash: that must not be too much for the index. */
START_TEST(a_checkpoint_of_many_keys_is_used)
{
    enum { MANY_KEYS = 2000000, RECORD_BYTES = 24 };
    int dir_fd = open(copy_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct random_state random;
    random_seed(&random, 3);
    const uint64_t live_bytes = (uint64_t)MANY_KEYS * RECORD_BYTES;
    struct generation *written = empty_generation(dir_fd, live_bytes + FILE_HEADER_BYTES);
    for (uint64_t i = 0; i < MANY_KEYS; i++) {
        uint32_t hash = (uint32_t)random_next(&random);
        ck_assert(index_reserve(written->index, hash));
        index_insert(written->index, hash, FILE_HEADER_BYTES + i * RECORD_BYTES);
    }
    written->words->live_bytes = written->words->reserve_bytes = live_bytes;
    written->log.tail += live_bytes;
    logfile_note_progress(&written->log, written->log.tail, 0);
    ck_assert_int_eq(checkpoint_write(written, dir_fd, NULL), KV_OK);
    free_both(written);

    struct logfile log;
    struct generation *loaded;
    ck_assert_int_eq(logfile_open(&log, KVSTORE_IO_MMAP, dir_fd, "log", true, NULL), KV_OK);
    ck_assert_int_eq(generation_create(log, &words, &loaded), KV_OK);
    begin_index(loaded);
    ck_assert(checkpoint_load(loaded, dir_fd));
    ck_assert_uint_eq(index_count(loaded->index), MANY_KEYS);
    free_both(loaded);
    close(dir_fd);
}
END_TEST

/* Expiry times and leftovers ------------------------------------------------------------------- */

static bool nothing_expires(void *context)
{
    return total_statistics(context).expiring_keys == 0;
}

START_TEST(a_checkpoint_keeps_the_expiry_times)
{
    char key[32];
    for (int i = 0; i < 2000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        struct kvstore_put_options soon = {.expiry_ms = i % 2 ? clock_realtime_ms() + 300 : 0};
        ck_assert_int_eq(kvstore_put(store, KEY(key), KEY("v"), &soon, NULL), KV_OK);
    }
    must_close(store);
    struct kvstore_options options = {.sweep_interval_ms = 5};
    store = must_open(dir, &options);
    ck_assert(wait_until(nothing_expires, store));
    ck_assert_uint_eq(total_statistics(store).keys, 1000);
}
END_TEST

START_TEST(leftovers_are_removed)
{
    must_put_numbers(store, 0, 10);
    must_close(store);
    struct image image;
    image_take(&image, dir);
    struct image_file unfinished = {.bytes = (uint8_t *)(uintptr_t) "half", .size = 4};
    strcpy(unfinished.name, "data.0000.new");
    image.files[image.count++] = unfinished;
    strcpy(unfinished.name, "data.0000.index.tmp");
    image.files[image.count++] = unfinished;
    image_put(&image, dir);
    image.count -= 2;
    image_free(&image);
    store = must_open(dir, NULL);
    check_numbers(store, 0, 10);
    image_take(&image, dir);
    ck_assert_uint_eq(image.count, 1);
    image_free(&image);
}
END_TEST

TEST_SUITE(kvstore_checkpoint)
{
    TCase *tests = tcase_create("checkpoint");
    one_file_case_add(tests);
    tcase_add_test(tests, a_checkpoint_is_used_once);
    tcase_add_test(tests, a_checkpoint_of_an_older_log_is_ignored);
    tcase_add_loop_test(tests, a_log_that_ends_with_its_last_record_keeps_its_checkpoint, 0,
                        store_io_count());
    tcase_add_loop_test(tests, a_log_that_ends_with_its_header_is_empty, 0, store_io_count());
    tcase_add_test(tests, a_damaged_checkpoint_is_ignored);
    tcase_add_loop_test(tests, impossible_numbers_are_ignored, 0,
                        sizeof forgeries / sizeof forgeries[0]);
    tcase_add_test(tests, sums_that_are_too_low_do_not_wrap);
    tcase_add_test(tests, a_checkpoint_of_many_keys_is_used);
    tcase_add_test(tests, a_checkpoint_keeps_the_expiry_times);
    tcase_add_test(tests, leftovers_are_removed);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
