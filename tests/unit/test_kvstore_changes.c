/*
 * Who follows the changes of a data file has, at each moment, what the file has; or is told that it
 * missed some. Over compactions, restarts and kills.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/log/fileio.h"
#include "mqkv/kvstore.h"
#include "tests/support/fault.h"
#include "tests/support/follower.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text)     kv_slice_from_string(text)
#define FOLLOWER_KEYS 32u

START_TEST(all_changes_come_in_their_order)
{
    struct follower follower;
    must_reopen(&keeping_changes);
    follower_start(&follower, store);
    follower_must_catch_up(&follower);
    ck_assert_uint_eq(follower.count, 0);
    put_round(8, 0);
    put_round(8, 1);
    ck_assert_int_eq(kvstore_delete(store, KEY("key 3"), 0, NULL), KV_OK);
    ck_assert_int_eq(kvstore_add(store, KEY("key 9"), 4, NULL, NULL, NULL), KV_OK);
    ck_assert_int_eq(kvstore_append(store, KEY("key 9"), KEY("5"), NULL, NULL), KV_OK);
    follower_must_catch_up(&follower);
    ck_assert_uint_eq(follower.count, 19);
    ck_assert_uint_eq(follower.deletes, 1);
    follower_must_catch_up(&follower);
    ck_assert_uint_eq(follower.count, 19);
}
END_TEST

static bool take_one(void *context, const struct kvstore_change *change)
{
    struct kvstore_change *kept = context;
    ck_assert_int_eq(kept->kind, KVSTORE_CHANGE_DELETE); /* as the test set it */
    *kept = *change;
    return true;
}

START_TEST(a_change_tells_all_of_it)
{
    struct kvstore_position position;
    struct kvstore_written written;
    bool at_end;
    struct kvstore_put_options options = {.expiry_ms = clock_realtime_ms() + 3600000};
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    must_put(store, "other", "1");
    ck_assert_int_eq(kvstore_put(store, KEY("name"), KEY("Ada"), &options, &written), KV_OK);
    must_put(store, "other", "2");
    struct kvstore_change change = {.kind = KVSTORE_CHANGE_DELETE};
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY("na"), 10, take_one, &change, &at_end), KV_OK);
    ck_assert(at_end);
    ck_assert_int_eq(change.kind, KVSTORE_CHANGE_PUT);
    ck_assert(kv_slice_equal(change.key, KEY("name")));
    ck_assert(kv_slice_equal(change.value, KEY("Ada")));
    ck_assert_uint_eq(change.version, written.version);
    ck_assert_uint_eq(change.expiry_ms, options.expiry_ms);
    /* The one after it is behind the position of the first, and none behind that of the call. */
    struct kvstore_position behind = change.position;
    change = (struct kvstore_change){.kind = KVSTORE_CHANGE_DELETE};
    ck_assert_int_eq(kvstore_changes(store, 0, &behind, KEY(""), 10, take_one, &change, &at_end),
                     KV_OK);
    ck_assert(kv_slice_equal(change.value, KEY("2")));
    ck_assert_int_eq(memcmp(&behind, &position, sizeof position), 0);
}
END_TEST

START_TEST(who_has_no_room_goes_on_from_there)
{
    struct follower follower;
    bool at_end = true;
    follower_start(&follower, store);
    put_round(10, 0);
    follower.room = 4; /* refuses the fourth */
    ck_assert_int_eq(kvstore_changes(store, 0, &follower.position, KEY(""), 100, follower_take,
                                     &follower, &at_end),
                     KV_OK);
    ck_assert(!at_end);
    ck_assert_uint_eq(follower.count, 3);
    follower_must_catch_up(&follower);
    ck_assert_uint_eq(follower.count, 10);
}
END_TEST

START_TEST(what_expires_is_a_change)
{
    struct follower follower;
    must_reopen(&keeping_changes);
    follower_start(&follower, store);
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 20};
    ck_assert_int_eq(kvstore_put(store, KEY("key 1"), KEY("v"), &soon, NULL), KV_OK);
    for (int i = 0; i < 10000 && follower.expiries == 0; i++) {
        ck_assert_int_eq(follower_catch_up(&follower, store), KV_OK);
        clock_sleep_ms(1);
    }
    ck_assert_uint_eq(follower.expiries, 1);
    ck_assert_uint_eq(follower.count, 2);
    ck_assert_uint_eq(follower.versions[1], 0);
    ck_assert_uint_eq(total_statistics(store).expired, 1);
    /* Also of one whose time was over while the store was closed, whether there is a checkpoint or
     * the log is read. */
    for (int with_checkpoint = 0; with_checkpoint < 2; with_checkpoint++) {
        soon.expiry_ms = clock_realtime_ms() + 30;
        must_reopen(&keeping_changes);
        ck_assert_int_eq(kvstore_put(store, KEY("key 2"), KEY("v"), &soon, NULL), KV_OK);
        must_close(store);
        char path[STORE_DIR_BYTES + 32];
        snprintf(path, sizeof path, "%s/data.0000.index", dir);
        if (!with_checkpoint)
            ck_assert_int_eq(unlink(path), 0);
        clock_sleep_ms(40);
        store = must_open(dir, &keeping_changes);
        unsigned before = follower.expiries;
        for (int i = 0; i < 10000 && follower.expiries == before; i++) {
            ck_assert_int_eq(follower_catch_up(&follower, store), KV_OK);
            clock_sleep_ms(1);
        }
        ck_assert_uint_eq(follower.expiries, before + 1);
    }
}
END_TEST

START_TEST(compactions_change_nothing_for_followers)
{
    struct follower behind, first, level;
    must_reopen(&keeping_changes);
    follower_start(&first, store);
    follower_start(&level, store);
    put_round(20, 0);
    follower_start(&behind, store);
    for (int round = 1; round < 6; round++) {
        put_round(20, round);
        follower_must_catch_up(&level);
        must_compact();
        follower_must_catch_up(&level);
        ck_assert_int_eq(kvstore_delete(store, KEY("key 5"), 0, NULL), KV_OK);
        ck_assert_uint_eq(past_logs_there(), (unsigned)round);
    }
    ck_assert_uint_gt(total_statistics(store).past_log_bytes, 0);
    follower_must_catch_up(&level);
    follower_must_catch_up(&first);
    follower_must_catch_up(&behind);
    ck_assert_uint_eq(first.count, 6 * 20 + 5);
    ck_assert_uint_eq(level.count, first.count);
    ck_assert_uint_eq(behind.count, 5 * 20 + 5);
}
END_TEST

static _Atomic uint64_t bytes_got;

static ssize_t count_read(int fd, void *data, size_t size, off_t offset)
{
    ssize_t got = fileio_system.read_at(fd, data, size, offset);
    bytes_got += got > 0 ? (uint64_t)got : 0;
    return got;
}

START_TEST(followers_read_a_log_about_once)
{
    struct follower follower;
    struct fileio table = fileio_system;
    struct kvstore_options options = keeping_changes;
    options.io = KVSTORE_IO_PREAD;
    must_reopen(&options);
    follower_start(&follower, store);
    for (int round = 0; round < 1000; round++)
        put_round(20, round);
    uint64_t log_bytes = total_statistics(store).live_bytes + total_statistics(store).dead_bytes;
    for (int past = 0; past < 2; past++) { /* the log in use, and the same when it was replaced */
        struct follower reader = follower;
        bytes_got = 0;
        table.read_at = count_read;
        fileio = &table;
        ck_assert_int_eq(follower_catch_up(&reader, store), KV_OK);
        fileio = &fileio_system;
        ck_assert_uint_eq(reader.count, 1000 * 20);
        ck_assert_uint_le(bytes_got, 8 * log_bytes);
        must_compact();
    }
}
END_TEST

START_TEST(positions_stay_good_over_restarts)
{
    struct follower follower, late;
    must_reopen(&keeping_changes);
    follower_start(&late, store);
    follower_start(&follower, store);
    for (int round = 0; round < 6; round++) {
        put_round(10, round);
        if (round % 2 == 0)
            must_compact();
        if (round % 3 == 0)
            follower_must_catch_up(&follower);
        must_reopen(&keeping_changes);
        follower_must_catch_up(&follower);
    }
    ck_assert_uint_eq(past_logs_there(), 3);
    follower_must_catch_up(&late);
    ck_assert_uint_eq(late.count, 60);
    ck_assert_uint_eq(follower.count, 60);
}
END_TEST

START_TEST(a_killed_store_goes_on)
{
    struct follower follower, late;
    struct kvstore_options options = keeping_changes;
    options.direct = _i == 0 ? KVSTORE_DIRECT_OFF : KVSTORE_DIRECT_OWNER;
    must_reopen(&options);
    follower_start(&late, store);
    put_round(5, 0);
    follower_must_catch_up(&late);
    follower_start(&follower, store);
    must_close(store);
    store = NULL;
    for (int round = 1; round < 5; round++) {
        pid_t child = fork();
        if (child == 0) {
            store = must_open(dir, &options);
            put_round(10, round);
            if (round % 2 == 0)
                must_compact();
            put_round(3, round);
            kill(getpid(), SIGKILL);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status));
        store = must_open(dir, &options);
        follower_must_catch_up(&follower);
        ck_assert_uint_eq(follower.count, (unsigned)round * 13);
        struct follower now;
        follower_start(&now, store);
        if (round == 4)
            follower_must_catch_up(&late);
        must_close(store);
        store = must_open(dir, &options);
        must_put(store, "key 31", "x");
        follower_must_catch_up(&now);
        ck_assert_uint_eq(now.count, 1);
        ck_assert_int_eq(kvstore_delete(store, KEY("key 31"), 0, NULL), KV_OK);
        follower_must_catch_up(&follower);
        follower.count -= 2;
        must_close(store);
        store = NULL;
    }
    ck_assert_uint_eq(late.newest[9], follower.newest[9]);
}
END_TEST

START_TEST(what_is_not_kept_is_missed)
{
    struct follower level, behind;
    follower_start(&behind, store);
    put_round(10, 0);
    follower_start(&level, store);
    must_put(store, "key 1", "a");
    follower_must_catch_up(&level);
    /* No exchange of names on this file system, or the disk is full: who is at the end goes on all
     * the same. */
    fault_install(&(struct fault_plan){.call = FAULT_EXCHANGE, .nth = 1, .error = EINVAL});
    must_compact();
    fault_clear();
    ck_assert_uint_eq(past_logs_there(), 0);
    must_put(store, "key 1", "b");
    follower_must_catch_up(&level);
    ck_assert_uint_eq(level.count, 2);
    ck_assert_int_eq(follower_catch_up(&behind, store), KV_MISSED);
    follower_start(&behind, store);
    follower_must_catch_up(&behind);
}
END_TEST

START_TEST(positions_of_others_are_missed)
{
    struct follower follower;
    bool at_end;
    struct kvstore_position good, bad;
    put_round(10, 0);
    follower_start(&follower, store);
    good = follower.position;
    for (int i = 0; i < 3000; i++) {
        bad = good;
        if (i % 3 == 0)
            bad.log ^= UINT64_C(1) << i % 64;
        else if (i % 3 == 1)
            bad.version ^= UINT64_C(1) << i % 64;
        else
            bad.place ^= UINT64_C(1) << i % 64;
        enum kv_status status =
            kvstore_changes(store, 0, &bad, KEY(""), 10, follower_take, &follower, &at_end);
        ck_assert(status == KV_MISSED || (status == KV_OK && i % 3 == 2));
    }
    bad = (struct kvstore_position){0};
    ck_assert_int_eq(
        kvstore_changes(store, 0, &bad, KEY(""), 10, follower_take, &follower, &at_end), KV_MISSED);
    ck_assert_int_eq(
        kvstore_changes(store, 1, &good, KEY(""), 10, follower_take, &follower, &at_end), KV_USAGE);
    must_close(store);
    store = must_open(dir, &(struct kvstore_options){.read_only = true});
    ck_assert_int_eq(kvstore_changes_now(store, 0, &bad), KV_READ_ONLY);
}
END_TEST

static bool three_have_expired(void *context)
{
    (void)context;
    return total_statistics(store).expired == 3;
}

static void fill_disk(void)
{
    static char big[300000];
    memset(big, 'x', sizeof big);
    enum kv_status status = KV_OK;
    for (size_t size = sizeof big; size > 0; size /= 8)
        do
            status = kvstore_put(store, KEY("key 9"), kv_slice(big, size), NULL, NULL);
        while (status == KV_OK);
    ck_assert_int_eq(status, KV_NO_SPACE);
}

static void put_three_that_expire(void)
{
    /* Not while the first sweep of the store that was just opened may still run. */
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 300};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(kvstore_put(store, KEY(numbered("key", i)), KEY("v"), &soon, NULL), KV_OK);
}

/* Nor do they wait for it, which would keep the disk full. */
START_TEST(what_expires_on_a_full_disk_is_missed)
{
    struct follower follower;
    struct kvstore_options options = keeping_changes;
    options.sweep_interval_ms = 3600000;
    must_reopen(&options);
    put_three_that_expire();
    follower_start(&follower, store);
    fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC});
    fill_disk();
    options.sweep_interval_ms = 1;
    must_reopen(&options);
    ck_assert(wait_until(three_have_expired, NULL));
    fault_clear();
    struct kvstore_position before = follower.position;
    ck_assert_int_eq(follower_catch_up(&follower, store), KV_MISSED);
    must_compact();
    must_reopen(&options);
    follower.position = before;
    ck_assert_int_eq(follower_catch_up(&follower, store), KV_MISSED);
    follower_start(&follower, store);
    must_put(store, "key 1", "again");
    follower_must_catch_up(&follower);
    ck_assert_uint_eq(follower.count, 1);
}
END_TEST

/* Without keep_changes_ms, when nobody has asked since the store was opened. */
START_TEST(what_expires_while_nobody_follows_is_missed)
{
    struct follower follower;
    must_reopen(&(struct kvstore_options){.sweep_interval_ms = 3600000});
    put_three_that_expire();
    follower_start(&follower, store);
    must_reopen(&(struct kvstore_options){.sweep_interval_ms = 1});
    ck_assert(wait_until(three_have_expired, NULL));
    ck_assert_int_eq(follower_catch_up(&follower, store), KV_MISSED);
    /* Others' expiries do not matter to those who come later. */
    follower_start(&follower, store);
    must_reopen(&one_file);
    follower_must_catch_up(&follower);
}
END_TEST

/* Who knows the salt can put values in which there are records. */
START_TEST(positions_do_not_tell_the_salt)
{
    struct kvstore_position first, second;
    struct image image;
    ck_assert_int_eq(kvstore_changes_now(store, 0, &first), KV_OK);
    must_put(store, "key 1", "1");
    must_compact();
    ck_assert_int_eq(kvstore_changes_now(store, 0, &second), KV_OK);
    ck_assert_uint_ne(first.log, second.log);
    must_close(store);
    store = NULL;
    image_take(&image, dir);
    for (size_t i = 0; i < image.count; i++) {
        struct file_identity identity;
        if (image.files[i].size < FILE_HEADER_BYTES ||
            fileheader_read_identity(image.files[i].bytes, &identity) != FILEHEADER_VALID)
            continue;
        ck_assert_uint_ne(identity.salt, first.log);
        ck_assert_uint_ne(identity.salt, second.log);
    }
    image_free(&image);
}
END_TEST

/* Told ----------------------------------------------------------------------------------------- */

static atomic_uint told;

static void note(void *context, uint32_t file)
{
    ck_assert_ptr_eq(context, &told);
    ck_assert_uint_eq(file, 0);
    atomic_fetch_add(&told, 1);
}

START_TEST(who_waits_is_told_once)
{
    kvstore_set_change_listener(store, note, &told);
    must_put(store, "a", "1");
    ck_assert_uint_eq(atomic_load(&told), 0);
    kvstore_await_change(store, 0);
    kvstore_await_change(store, 7); /* there is none */
    ck_assert_uint_eq(atomic_load(&told), 0);
    must_put(store, "a", "2");
    must_put(store, "a", "3");
    ck_assert_uint_eq(atomic_load(&told), 1);
    kvstore_await_change(store, 0);
    must_compact();
    ck_assert_uint_eq(atomic_load(&told), 1);
    ck_assert_int_eq(kvstore_delete(store, KEY("a"), 0, NULL), KV_OK);
    ck_assert_uint_eq(atomic_load(&told), 2);
}
END_TEST

static atomic_bool writing;

static void *write_all_the_time(void *unused)
{
    (void)unused;
    for (int round = 0; atomic_load(&writing); round++) {
        must_put(store, numbered("key", round % (int)FOLLOWER_KEYS), "value");
        if (round % 100 == 0)
            clock_sleep_ms(1);
    }
    return NULL;
}

START_TEST(followers_keep_up_beside_writers)
{
    struct follower follower, late;
    pthread_t writer;
    struct kvstore_options options = keeping_changes;
    options.io = (enum kvstore_io)_i;
    must_reopen(&options);
    follower_start(&follower, store);
    follower_start(&late, store);
    atomic_store(&writing, true);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_all_the_time, NULL), 0);
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(follower_catch_up(&follower, store), KV_OK);
        must_compact();
    }
    atomic_store(&writing, false);
    pthread_join(writer, NULL);
    follower_must_catch_up(&follower);
    follower_must_catch_up(&late);
    ck_assert_uint_eq(follower.count, late.count);
}
END_TEST

TEST_SUITE(kvstore_changes)
{
    TCase *tests = tcase_create("changes");
    tcase_set_timeout(tests, 600);
    one_file_case_add(tests);
    tcase_add_test(tests, all_changes_come_in_their_order);
    tcase_add_test(tests, a_change_tells_all_of_it);
    tcase_add_test(tests, who_has_no_room_goes_on_from_there);
    tcase_add_test(tests, what_expires_is_a_change);
    tcase_add_test(tests, compactions_change_nothing_for_followers);
    tcase_add_test(tests, followers_read_a_log_about_once);
    tcase_add_test(tests, positions_stay_good_over_restarts);
    tcase_add_loop_test(tests, a_killed_store_goes_on, 0, 2);
    tcase_add_test(tests, what_is_not_kept_is_missed);
    tcase_add_test(tests, positions_of_others_are_missed);
    tcase_add_test(tests, what_expires_on_a_full_disk_is_missed);
    tcase_add_test(tests, what_expires_while_nobody_follows_is_missed);
    tcase_add_test(tests, positions_do_not_tell_the_salt);
    tcase_add_test(tests, who_waits_is_told_once);
    tcase_add_loop_test(tests, followers_keep_up_beside_writers, KVSTORE_IO_MMAP, KVSTORE_IO_COUNT);
    suite_add_tcase(suite, tests);
}
