/* What has gone without a record, by a sweep or a compaction, is remembered in the header; what was
 * evicted so is not. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "kvstore/api/store.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/fileheader.h"
#include "tests/support/fault.h"
#include "tests/support/other_boot.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define HOUR_MS UINT64_C(3600000)

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;
static struct kvstore_options options;

static void set_up(void)
{
    store_dir_make(dir);
    options = (struct kvstore_options){
        .create = true, .datafiles = 1, .compact_dead_percent = 100, .sweep_interval_ms = 1};
    store = must_open(dir, &options);
}

static void tear_down(void)
{
    must_close(store);
    other_boot_clear();
    store_dir_remove(dir);
}

static void put_until(const char *key, uint64_t expiry_ms)
{
    const struct kvstore_put_options put = {.expiry_ms = expiry_ms};
    ck_assert_int_eq(
        kvstore_put(store, kv_slice_from_string(key), kv_slice_from_string("x"), &put, NULL),
        KV_OK);
}

/* The header of data.0000, read; and written with another time, if that is not 0. */
static struct file_chapters header_with(uint64_t gone_ms, uint64_t gone_end)
{
    char path[STORE_DIR_BYTES + 32];
    uint8_t page[FILE_HEADER_BYTES];
    struct file_identity identity;
    struct file_chapters chapters;
    snprintf(path, sizeof path, "%s/data.0000", dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, page, sizeof page, 0), (ssize_t)sizeof page);
    ck_assert_int_eq(fileheader_read_identity(page, &identity), FILEHEADER_VALID);
    file_chapters_read(page, identity.salt, &chapters);
    if (gone_ms != 0) {
        struct file_chapters changed = chapters;
        changed.gone.expiry_ms = gone_ms;
        changed.gone.end = gone_end;
        file_chapters_write(page, identity.salt, &changed);
        ck_assert_int_eq(pwrite(fd, page, sizeof page, 0), (ssize_t)sizeof page);
    }
    close(fd);
    return chapters;
}

static bool has_one_key(void *unused)
{
    (void)unused;
    return total_statistics(store).keys == 1;
}

static bool has_three_keys(void *unused)
{
    (void)unused;
    return total_statistics(store).keys == 3;
}

/* Loop: with a mapping and without. */
START_TEST(a_sweep_notes_how_late_it_was)
{
    must_close(store);
    options.io = _i == 0 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD;
    store = must_open(dir, &options);
    uint64_t expiry_ms = clock_realtime_ms() + 20;
    ck_assert_uint_eq(header_with(0, 0).gone.expiry_ms, 0);
    put_until("mortal", expiry_ms);
    put_until("longer", expiry_ms + HOUR_MS);
    ck_assert(wait_until(has_one_key, NULL));
    uint64_t gone_ms = header_with(0, 0).gone.expiry_ms;
    ck_assert_uint_ge(gone_ms, expiry_ms);
    ck_assert_uint_le(gone_ms, clock_realtime_ms());
}
END_TEST

/* As if the clock had been set back by two hours since a sweep. */
START_TEST(what_was_swept_stays_away_though_the_clock_is_set_back)
{
    uint64_t now_ms = clock_realtime_ms();
    put_until("swept", now_ms + HOUR_MS);
    put_until("not yet", now_ms + 3 * HOUR_MS);
    put_until("immortal", 0);
    uint64_t end = store->context.files[0].current->log.tail;
    put_until("later", now_ms + HOUR_MS);
    must_close(store);
    store_checkpoint_remove(dir);
    header_with(now_ms + 2 * HOUR_MS, end);
    store = must_open(dir, &options);
    ck_assert_ptr_null(get_text(store, "swept"));
    ck_assert_pstr_eq(get_text(store, "later"), "x");
    ck_assert_pstr_eq(get_text(store, "not yet"), "x");
    ck_assert_pstr_eq(get_text(store, "immortal"), "x");

    /* A sweep by the clock that was set back does not make it more. */
    put_until("short", clock_realtime_ms() + 1);
    ck_assert(wait_until(has_three_keys, NULL));
    ck_assert_uint_eq(header_with(0, 0).gone.expiry_ms, now_ms + 2 * HOUR_MS);
    ck_assert_uint_eq(header_with(0, 0).gone.end, end);
}
END_TEST

/* As if a power failure had taken the end of the log, too. */
START_TEST(what_is_written_behind_the_end_has_not_gone)
{
    uint64_t now_ms = clock_realtime_ms();
    put_until("swept", now_ms + HOUR_MS);
    uint64_t end = store->context.files[0].current->log.tail;
    must_close(store);
    store_checkpoint_remove(dir);
    header_with(now_ms + 2 * HOUR_MS, end + 1000000);
    store = must_open(dir, &options);
    ck_assert_ptr_null(get_text(store, "swept"));
    ck_assert_uint_eq(header_with(0, 0).gone.end, end);
    put_until("written since", now_ms + HOUR_MS);
    must_close(store);
    store_checkpoint_remove(dir);
    store = must_open(dir, &options);
    ck_assert_pstr_eq(get_text(store, "written since"), "x");
}
END_TEST

static atomic_uint told;

static void note(void *unused, uint32_t file)
{
    (void)unused;
    (void)file;
    atomic_fetch_add(&told, 1);
}

#define ENTRIES 100

/* Opens the store with a bound, and without a block more than there are, also for deletions. */
static void open_without_room(void)
{
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/data.0000", dir);
    uint64_t end = store->context.files[0].current->log.tail;
    must_close(store);
    ck_assert_int_eq(truncate(path, (off_t)end), 0);
    fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC});
    options.max_bytes = UINT64_C(1) << 20;
    options.evict = KVSTORE_EVICT_S3FIFO;
    store = must_open(dir, &options);
}

/* A kill follows: the start after it reads the log. */
START_TEST(what_is_evicted_without_a_record_takes_nothing_with_it)
{
    static const char value[2000] = "v";
    for (int i = 0; i < ENTRIES; i++) {
        const struct kvstore_put_options put = {.expiry_ms = clock_realtime_ms() +
                                                             (uint64_t)(i + 1) * HOUR_MS};
        ck_assert_int_eq(kvstore_put(store, kv_slice_from_string(numbered("key", i)),
                                     kv_slice(value, sizeof value), &put, NULL),
                         KV_OK);
    }
    open_without_room();
    kvstore_set_change_listener(store, note, NULL);
    kvstore_await_change(store, 0);
    ck_assert_int_eq(kvstore_set_max_bytes(store, KVSTORE_MIN_BOUND_BYTES, NULL), KV_OK);
    ck_assert_uint_lt(total_statistics(store).keys, ENTRIES / 2);
    ck_assert_uint_eq(atomic_load(&told), 1);
    ck_assert_uint_eq(header_with(0, 0).gone.expiry_ms, 0);
    struct image image;
    image_take(&image, dir);
    kvstore_close(store, NULL);
    fault_clear();
    image_put(&image, dir);
    image_free(&image);
    options.max_bytes = 0;
    options.evict = KVSTORE_EVICT_NONE;
    store = must_open(dir, &options);
    ck_assert_uint_eq(total_statistics(store).keys, ENTRIES);
}
END_TEST

static uint64_t put_given(const char *key, uint64_t version)
{
    struct kvstore_written written;
    const struct kvstore_put_options put = {.give_version = version};
    ck_assert_int_eq(
        kvstore_put(store, kv_slice_from_string(key), kv_slice_from_string("x"), &put, &written),
        KV_OK);
    return written.version;
}

START_TEST(a_version_that_a_compaction_has_left_out_is_not_given_again)
{
    struct kv_error error;
    ck_assert_uint_eq(put_given("one", 500), 500);
    ck_assert_uint_eq(put_given("two", 400), 400); /* nothing has gone yet */
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string("one"), 0, NULL), KV_OK);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_OK);
    ck_assert_uint_eq(total_statistics(store).dead_bytes, 0);
    ck_assert_uint_gt(put_given("one", 500), 501);
    must_close(store);
    store = must_open(dir, &options);
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string("one"), 0, NULL), KV_OK);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_OK);
    must_close(store);
    store = must_open(dir, &options);
    ck_assert_uint_gt(put_given("one", 500), 503);
    ck_assert_uint_eq(put_given("three", 900), 900);
}
END_TEST

/* Who knows which versions the records had that a power failure has taken? */
START_TEST(a_version_that_a_power_failure_may_have_taken_is_not_given_again)
{
    ck_assert_uint_eq(put_given("one", 500), 500);
    for (int boots = 0; boots < 2; boots++) {
        must_close(store);
        store_checkpoint_remove(dir);
        if (boots == 1)
            other_boot_install();
        store = must_open(dir, &options);
        if (boots == 0)
            ck_assert_uint_eq(put_given("two", 400), 400); /* a killed process takes none */
        else
            ck_assert_uint_gt(put_given("three", 300), 500);
    }
    ck_assert_uint_eq(total_statistics(store).dead_bytes, 0);
}
END_TEST

TEST_SUITE(kvstore_gone)
{
    TCase *tests = tcase_create("gone");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_sweep_notes_how_late_it_was, 0, 2);
    tcase_add_test(tests, what_was_swept_stays_away_though_the_clock_is_set_back);
    tcase_add_test(tests, what_is_written_behind_the_end_has_not_gone);
    tcase_add_test(tests, what_is_evicted_without_a_record_takes_nothing_with_it);
    tcase_add_test(tests, a_version_that_a_power_failure_may_have_taken_is_not_given_again);
    tcase_add_test(tests, a_version_that_a_compaction_has_left_out_is_not_given_again);
    suite_add_tcase(suite, tests);
}
