#include "kvstore/table/recovery.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/memory/machine_sizes.h"
#include "common/time/clock.h"
#include "common/numbers/random.h"
#include "kvstore/log/fileio.h"
#include "mqkv/kvstore.h"
#include "tests/support/fault.h"
#include "tests/support/one_file_store.h"
#include "tests/support/skip.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

START_TEST(a_killed_store_has_all_that_was_written)
{
    must_put_numbers(store, 0, 2000);
    must_put_numbers(store, 500, 700);
    for (int i = 100; i < 200; i++)
        ck_assert_int_eq(kvstore_delete(store, KEY(numbered("key", i)), 0, NULL), KV_OK);
    struct kvstore *copy = open_copy();
    struct kvstore_file_statistics mine = total_statistics(store);
    struct kvstore_file_statistics theirs = total_statistics(copy);
    ck_assert(!theirs.from_checkpoint);
    ck_assert_uint_eq(theirs.keys, 1900);
    ck_assert_uint_eq(theirs.live_bytes, mine.live_bytes);
    ck_assert_uint_eq(theirs.dead_bytes, mine.dead_bytes);
    ck_assert_uint_eq(theirs.recovered_bytes_cut, 0);
    check_numbers(copy, 0, 100);
    check_numbers(copy, 200, 2000);
    ck_assert_ptr_null(get_text(copy, numbered("key", 150)));
    must_close(copy);
}
END_TEST

START_TEST(a_crash_never_gives_a_version_again)
{
    uint64_t version = must_put(store, "key", "value");
    for (int crash = 0; crash < 3; crash++) {
        struct kvstore *copy = open_copy();
        struct kvstore_entry entry;
        ck_assert_int_eq(get_entry(copy, "key", &entry), KV_OK);
        ck_assert_uint_eq(entry.version, version);
        /* Whatever a lost tail had: less than 2^32 versions. */
        ck_assert_uint_gt(must_put(copy, "other", "value"), version + UINT32_MAX);
        struct image image;
        image_take(&image, copy_dir);
        must_close(copy);
        must_close(store);
        image_put(&image, dir);
        image_free(&image);
        store = must_open(dir, NULL);
        version = must_put(store, "key", "value");
    }
}
END_TEST

START_TEST(a_clean_restart_goes_on_with_the_next_version)
{
    uint64_t version = must_put(store, "key", "value");
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, &written), KV_OK);
    must_close(store);
    store = must_open(dir, NULL);
    ck_assert_uint_eq(must_put(store, "key", "value"), version + 2);
}
END_TEST

START_TEST(expired_entries_are_left_out)
{
    struct kvstore_put_options past = {.expiry_ms = 1};
    struct kvstore_put_options future = {.expiry_ms = clock_realtime_ms() + 3600000};
    must_put(store, "gone", "older value, without an expiry");
    ck_assert_int_eq(kvstore_put(store, KEY("gone"), KEY("v"), &past, NULL), KV_OK);
    ck_assert_int_eq(kvstore_put(store, KEY("there"), KEY("v"), &future, NULL), KV_OK);
    struct kvstore *copy = open_copy();
    struct kvstore_file_statistics total = total_statistics(copy);
    ck_assert_uint_eq(total.keys, 1);
    ck_assert_uint_eq(total.expiring_keys, 1);
    ck_assert_ptr_null(get_text(copy, "gone"));
    ck_assert_str_eq(get_text(copy, "there"), "v");
    must_close(copy);
}
END_TEST

/* After a failed sync -------------------------------------------------------------------------- */

static uint64_t durable_end;
static bool synced;
static bool forgotten;

static int note_sync(int fd)
{
    synced = true;
    return fileio_system.sync_data(fd);
}

/* What the kernel does where the pages after the durable ones are clean, but never got to the
 * disk. */
static void forget_lost_bytes(int fd, void *at, size_t size, off_t offset)
{
    static const char zeros[1 << 20];
    ck_assert(synced); /* or the bytes a killed process left dirty would be lost */
    ck_assert_uint_le((uint64_t)offset, durable_end);
    ck_assert_uint_le(size - durable_end, sizeof zeros);
    fileio_system.forget(fd, at, size, offset);
    size_t lost_bytes = size - durable_end;
    ck_assert_int_eq(fileio_system.write_at(fd, zeros, lost_bytes, (off_t)durable_end), lost_bytes);
    forgotten = true;
}

/* Only the cache had what was written since the last sync: it must not be taken for durable, or
 * what is written after it would be lost together with it. */
START_TEST(what_only_the_cache_has_is_not_recovered)
{
    struct fileio table = fileio_system;
    table.sync_data = note_sync;
    table.forget = forget_lost_bytes;
    must_put_numbers(store, 0, 300);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    durable_end = FILE_HEADER_BYTES + total_statistics(store).live_bytes;
    must_put_numbers(store, 300, 600);

    synced = forgotten = false;
    fileio = &table;
    struct kvstore *copy = open_copy();
    fileio = &fileio_system;
    ck_assert(forgotten);
    ck_assert_uint_eq(total_statistics(copy).keys, 300);
    check_numbers(copy, 0, 300);
    struct kvstore_ticket ticket = must_put_for_ticket(copy, "new", "value");
    ck_assert_int_eq(kvstore_wait_durable(copy, ticket), KV_OK);
    must_close(copy);
}
END_TEST

#define LARGE_BYTES ((size_t)70000)

static struct image on_disk; /* where only the cache has what came later */

static uint64_t end_of_log(void)
{
    struct kvstore_file_statistics total = total_statistics(store);
    return FILE_HEADER_BYTES + total.live_bytes + total.dead_bytes;
}

static void put_large(const char *key, char letter)
{
    static char value[LARGE_BYTES];
    memset(value, letter, sizeof value);
    ck_assert_int_eq(kvstore_put(store, KEY(key), kv_slice(value, sizeof value), NULL, NULL),
                     KV_OK);
}

/* The same for what lies before them. */
static void forget_lost_content(int fd, void *at, size_t size, off_t offset)
{
    const struct image_file *file = image_find(&on_disk, "data.0000");
    ck_assert(synced);
    fileio_system.forget(fd, at, size, offset);
    if ((uint64_t)offset >= durable_end)
        return;
    size_t lost_bytes = durable_end - (size_t)offset;
    ck_assert_int_eq(fileio_system.write_at(fd, file->bytes + offset, lost_bytes, offset),
                     (ssize_t)lost_bytes);
}

/* An extent far before the synced offset got another content since. */
START_TEST(a_content_that_only_the_cache_has_is_not_recovered)
{
    struct fileio table = fileio_system;
    table.sync_data = note_sync;
    table.forget = forget_lost_content;
    put_large("old", 'x');
    put_large("old", 'y');
    must_put_numbers(store, 0, 300);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    durable_end = end_of_log();
    image_take(&on_disk, dir);
    put_large("new", 'z');
    ck_assert_uint_lt(end_of_log(), durable_end + LARGE_BYTES);
    synced = false;
    fileio = &table;
    struct kvstore *copy = open_copy();
    fileio = &fileio_system;
    ck_assert_int_eq(get_entry(copy, "new", &(struct kvstore_entry){0}), KV_NOT_FOUND);
    ck_assert_int_eq(get_entry(copy, "old", &(struct kvstore_entry){0}), KV_OK);
    check_numbers(copy, 0, 300);
    image_free(&on_disk);
    must_close(copy);
}
END_TEST

static bool written_again[16];
static uint64_t first_unsynced_page;

static ssize_t note_write(int fd, const void *data, size_t size, off_t offset)
{
    for (uint64_t at = (uint64_t)offset; at < (uint64_t)offset + size; at += PAGE_BYTES) {
        uint64_t page = at / PAGE_BYTES;
        if (page >= first_unsynced_page && page - first_unsynced_page < 16)
            written_again[page - first_unsynced_page] = true;
    }
    synced = false;
    return fileio_system.write_at(fd, data, size, offset);
}

/* Maps the file, and touches what lies before the end. */
static void *map_and_touch(uint64_t end)
{
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/data.0000", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, end, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    close(fd);
    const volatile char *bytes = at;
    for (uint64_t offset = 0; offset < end; offset += PAGE_BYTES)
        (void)bytes[offset];
    return at;
}

/* What a reader in another process has mapped stays in memory, be it on the disk or not. */
START_TEST(what_others_map_is_written_again)
{
    struct kvstore_options options = one_file;
    options.durability = KVSTORE_SYNC_NONE;
    if (store_lies_in_memory(dir))
        SKIP_TEST("the directory of the tests lies in memory");
    must_close(store);
    store = must_open(dir, &options);
    must_put_numbers(store, 0, 300);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    first_unsynced_page = (FILE_HEADER_BYTES + total_statistics(store).live_bytes) / PAGE_BYTES;
    must_put_numbers(store, 300, 600);
    uint64_t end = FILE_HEADER_BYTES + total_statistics(store).live_bytes;
    uint64_t pages = (end - 1) / PAGE_BYTES - first_unsynced_page + 1;
    ck_assert(pages > 1 && pages <= 16);
    fault_install(&(struct fault_plan){.call = FAULT_SYNC_DATA, .nth = 1, .error = EIO});
    ck_assert_int_eq(kvstore_sync(store), KV_NOT_DURABLE);
    ck_assert_int_eq(kvstore_close(store, NULL), KV_NOT_DURABLE);
    fault_clear();
    void *mapped = map_and_touch(end);

    struct fileio table = fileio_system;
    table.sync_data = note_sync;
    table.write_at = note_write;
    fileio = &table;
    store = must_open(dir, &options);
    fileio = &fileio_system;
    for (uint64_t i = 0; i < pages; i++)
        ck_assert(written_again[i]);
    ck_assert(synced);
    check_numbers(store, 0, 600);
    munmap(mapped, end);
}
END_TEST

/* Killed processes ----------------------------------------------------------------------------- */

/* Writes number after number, tells each through the pipe once it is written, until it is
 * killed. */
static void write_until_killed(int told_fd)
{
    struct kvstore_options options = {
        .create = true, .compact_min_bytes = 16384, .compact_dead_percent = 20};
    struct kvstore *mine = must_open(copy_dir, &options);
    char key[32], value[32];
    for (int i = 0;; i++) {
        snprintf(key, sizeof key, "key %d", i % 1000);
        snprintf(value, sizeof value, "value %d", i);
        must_put(mine, key, value);
        if (write(told_fd, &i, sizeof i) != (ssize_t)sizeof i)
            _exit(1);
    }
}

/* Returns the last number that the child told of before it was killed. */
static int run_and_kill(int numbers_before_kill)
{
    int told[2], last = -1, number, result;
    ck_assert_int_eq(pipe(told), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(told[0]);
        write_until_killed(told[1]);
    }
    close(told[1]);
    while (last + 1 < numbers_before_kill && read(told[0], &number, sizeof number) > 0)
        last = number;
    kill(child, SIGKILL);
    while (read(told[0], &number, sizeof number) > 0)
        last = number;
    close(told[0]);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    ck_assert(WIFSIGNALED(result));
    return last;
}

/* Each key has the last value that was told, or the one whose telling the kill cut off. */
static void check_after_kill(struct kvstore *opened, int last)
{
    char value[32], next[32];
    for (int key = 0; key < 1000 && key <= last; key++) {
        int newest = last - (last - key) % 1000;
        snprintf(value, sizeof value, "value %d", newest);
        snprintf(next, sizeof next, "value %d", newest + 1000);
        const char *found = get_text(opened, numbered("key", key));
        ck_assert_ptr_nonnull(found);
        bool in_flight = newest + 1000 == last + 1 && strcmp(found, next) == 0;
        ck_assert_msg(strcmp(found, value) == 0 || in_flight, "%s is not %s", found, value);
    }
}

START_TEST(kill_9_loses_nothing_that_was_written)
{
    must_close(store); /* its threads, which a fork would not take along */
    store = NULL;
    for (int round = 0; round < 5; round++) {
        int last = run_and_kill(500 + round * 3000);
        struct kvstore *copy = must_open(copy_dir, NULL);
        check_after_kill(copy, last);
        must_close(copy);
        store_dir_remove(copy_dir);
        store_dir_make(copy_dir);
    }
}
END_TEST

/* A model -------------------------------------------------------------------------------------- */

#define MODEL_KEYS 60

static void random_write(struct random_state *random, int model[MODEL_KEYS])
{
    int key = (int)random_below(random, MODEL_KEYS);
    int value = (int)random_below(random, 1000000);
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    if (random_below(random, 4) == 0) {
        enum kv_status expected = model[key] < 0 ? KV_NOT_FOUND : KV_OK;
        ck_assert_int_eq(kvstore_delete(store, KEY(numbered("k", key)), 0, NULL), expected);
        model[key] = -1;
    } else {
        must_put(store, numbered("k", key), text);
        model[key] = value;
    }
}

static void check_model(struct kvstore *opened, const int model[MODEL_KEYS])
{
    for (int key = 0; key < MODEL_KEYS; key++) {
        const char *found = get_text(opened, numbered("k", key));
        ck_assert_int_eq(found ? atoi(found) : -1, model[key]);
    }
}

START_TEST(any_history_of_writes_stops_and_crashes_ends_in_the_same_entries)
{
    struct random_state random;
    int model[MODEL_KEYS];
    memset(model, 0xff, sizeof model);
    random_seed(&random, 20261120 + (uint64_t)_i);
    for (int round = 0; round < 12; round++) {
        for (uint64_t writes = random_below(&random, 300); writes > 0; writes--)
            random_write(&random, model);
        if (random_below(&random, 3) == 0)
            ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
        struct kvstore *copy = open_copy();
        check_model(copy, model);
        must_close(copy);
        if (random_below(&random, 3) == 0) {
            must_close(store);
            store = must_open(dir, NULL);
        }
        check_model(store, model);
    }
}
END_TEST

TEST_SUITE(kvstore_recovery)
{
    TCase *tests = tcase_create("recovery");
    one_file_case_add(tests);
    tcase_add_test(tests, a_killed_store_has_all_that_was_written);
    tcase_add_test(tests, a_crash_never_gives_a_version_again);
    tcase_add_test(tests, a_clean_restart_goes_on_with_the_next_version);
    tcase_add_test(tests, expired_entries_are_left_out);
    tcase_add_test(tests, what_only_the_cache_has_is_not_recovered);
    tcase_add_test(tests, a_content_that_only_the_cache_has_is_not_recovered);
    tcase_add_test(tests, what_others_map_is_written_again);
    tcase_add_test(tests, kill_9_loses_nothing_that_was_written);
    tcase_add_loop_test(tests, any_history_of_writes_stops_and_crashes_ends_in_the_same_entries, 0,
                        4);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
