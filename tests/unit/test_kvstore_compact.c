#include "kvstore/maintenance/compact.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/log/fileio.h"
#include "tests/support/store_variants.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

START_TEST(what_is_dead_goes_and_what_is_alive_stays)
{
    for (int round = 0; round < 5; round++)
        put_round(2000, round);
    ck_assert_int_eq(kvstore_delete(store, KEY("key 1999"), 0, NULL), KV_OK);
    struct kvstore_entry before, after;
    ck_assert_int_eq(get_entry(store, "key 7", &before), KV_OK);
    struct kvstore_file_statistics full = total_statistics(store);
    must_compact();
    struct kvstore_file_statistics lean = total_statistics(store);
    ck_assert_uint_eq(lean.keys, 1999);
    ck_assert_uint_eq(lean.live_bytes, full.live_bytes);
    ck_assert_uint_eq(lean.dead_bytes, 0);
    ck_assert_uint_lt(lean.file_bytes, full.file_bytes / 2);
    ck_assert_uint_eq(lean.compactions, 1);
    ck_assert_uint_eq(lean.appended_bytes, full.appended_bytes);
    check_round(store, 1999, 4);
    ck_assert_ptr_null(get_text(store, "key 1999"));
    ck_assert_int_eq(get_entry(store, "key 7", &after), KV_OK);
    ck_assert_uint_eq(after.version, before.version);
    struct kvstore *copy = open_copy();
    check_round(copy, 1999, 4);
    ck_assert_ptr_null(get_text(copy, "key 1999"));
    must_close(copy);
}
END_TEST

START_TEST(an_empty_file_can_be_compacted)
{
    must_compact();
    must_put(store, "key", "value");
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_OK);
    must_compact();
    ck_assert_uint_eq(total_statistics(store).dead_bytes, 0);
    ck_assert_uint_eq(total_statistics(store).keys, 0);
    struct kv_error error = {0};
    ck_assert_int_eq(kvstore_compact(store, 1, &error), KV_USAGE);
}
END_TEST

START_TEST(versions_never_go_back)
{
    struct kvstore_written written;
    put_round(100, 0);
    must_put(store, "key", "value");
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, &written), KV_OK);
    must_compact();
    struct kvstore *copy = open_copy();
    ck_assert_uint_gt(must_put(copy, "key", "value"), written.version);
    must_close(copy);
    must_close(store);
    store = must_open(dir, &one_file);
    ck_assert(total_statistics(store).from_checkpoint);
    ck_assert_uint_eq(must_put(store, "key", "value"), written.version + 1);
}
END_TEST

START_TEST(expired_entries_are_not_copied)
{
    struct kvstore_put_options past = {.expiry_ms = 1};
    struct kvstore_put_options future = {.expiry_ms = clock_realtime_ms() + 3600000};
    ck_assert_int_eq(kvstore_put(store, KEY("there"), KEY("v"), &future, NULL), KV_OK);
    ck_assert_int_eq(kvstore_put(store, KEY("gone"), KEY("v"), &past, NULL), KV_OK);
    must_compact();
    struct kvstore_file_statistics total = total_statistics(store);
    ck_assert_uint_eq(total.keys, 1);
    ck_assert_uint_eq(total.expiring_keys, 1);
    ck_assert_uint_eq(total.expired, 1);
    struct kvstore_entry entry;
    ck_assert_int_eq(get_entry(store, "there", &entry), KV_OK);
    ck_assert_uint_eq(entry.expiry_ms, future.expiry_ms);
}
END_TEST

START_TEST(durable_stays_durable)
{
    put_round(10, 0);
    struct kvstore_ticket before = must_put_for_ticket(store, "key", "before");
    must_compact();
    ck_assert(kvstore_is_durable(store, before));
    struct kvstore_ticket after = must_put_for_ticket(store, "key", "after");
    ck_assert_uint_gt(after.position, before.position);
    ck_assert(!kvstore_is_durable(store, after));
    ck_assert_int_eq(kvstore_wait_durable(store, after), KV_OK);
}
END_TEST

static bool was_compacted_twice(void *context)
{
    return total_statistics(context).compactions == 2;
}

static int (*sync_dir_below)(int dir_fd);
static atomic_bool asked_again;

/* A compaction syncs the directory when the new log is in its place. */
static int ask_again_and_sync_dir(int dir_fd)
{
    if (!atomic_exchange(&asked_again, true)) {
        ck_assert_uint_eq(total_statistics(store).compactions, 1);
        kvstore_request_compaction(store, 0);
    }
    return sync_dir_below(dir_fd);
}

/* Who asks looks at the number of compactions first, and waits for one more. */
START_TEST(what_is_asked_for_while_one_ends_is_done)
{
    static struct fileio table;
    const struct fileio *before = fileio;
    put_round(100, 0);
    table = *fileio;
    sync_dir_below = table.sync_dir;
    table.sync_dir = ask_again_and_sync_dir;
    fileio = &table;
    kvstore_request_compaction(store, 0);
    bool done = wait_until(was_compacted_twice, store);
    must_close(store);
    store = NULL;
    fileio = before;
    ck_assert(done);
}
END_TEST

static bool was_compacted(void *context)
{
    return total_statistics(context).compactions > 0;
}

START_TEST(enough_dead_bytes_start_it)
{
    must_close(store);
    struct kvstore_options eager = {.compact_dead_percent = 40, .compact_min_bytes = 100000};
    store = must_open(dir, &eager);
    put_round(1000, 0);
    clock_sleep_ms(20);
    ck_assert_uint_eq(total_statistics(store).compactions, 0);
    for (int round = 1; round < 6; round++)
        put_round(1000, round);
    ck_assert(wait_until(was_compacted, store));
    check_round(store, 1000, 5);
}
END_TEST

START_TEST(what_was_dead_at_open_starts_it)
{
    for (int round = 0; round < 6; round++)
        put_round(1000, round);
    must_close(store);
    struct kvstore_options eager = {.compact_dead_percent = 40, .compact_min_bytes = 100000};
    store = must_open(dir, &eager);
    ck_assert(wait_until(was_compacted, store));
    check_round(store, 1000, 5);
}
END_TEST

/* While others work ---------------------------------------------------------------------------- */

#define READERS 2
#define WRITERS 2
#define KEYS    400

static atomic_bool working;

static void *write_rounds(void *argument)
{
    char key[32], value[64];
    int writer = *(int *)argument;
    int round = 0;
    for (; atomic_load(&working); round++) {
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "w%d k%d", writer, i);
            snprintf(value, sizeof value, "w%d k%d %d", writer, i, round);
            must_put(store, key, value);
            if (round % 3 == 2 && i % 5 == 0)
                kvstore_delete(store, KEY(key), 0, NULL);
        }
        clock_sleep_ms(1); /* keeps the images of the test small */
    }
    return (void *)(intptr_t)(round - 1);
}

/* A reader sees values of the key that it asked for, and rounds that never go back. */
static void *read_rounds(void *argument)
{
    char key[32], start[64];
    int last[WRITERS][KEYS] = {0};
    (void)argument;
    for (int i = 0; atomic_load(&working); i++) {
        int writer = i % WRITERS, number = i * 31 % KEYS;
        snprintf(key, sizeof key, "w%d k%d", writer, number);
        snprintf(start, sizeof start, "%s ", key);
        const char *text = get_text(store, key);
        if (!text)
            continue;
        int round = atoi(text + strlen(start));
        if (strncmp(text, start, strlen(start)) != 0 || round < last[writer][number])
            return strdup(text);
        last[writer][number] = round;
    }
    return NULL;
}

static void check_last_round(struct kvstore *opened, int writer, int round)
{
    char key[32], value[64];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "w%d k%d", writer, i);
        snprintf(value, sizeof value, "w%d k%d %d", writer, i, round);
        bool deleted = round % 3 == 2 && i % 5 == 0;
        ck_assert_pstr_eq(get_text(opened, key), deleted ? NULL : value);
    }
}

START_TEST(reads_and_writes_go_on_meanwhile)
{
    pthread_t readers[READERS], writers[WRITERS];
    int numbers[WRITERS];
    must_close(store);
    struct kvstore_options options = one_file;
    options.locking = (enum kvstore_locking)_i;
    store = must_open(dir, &options);
    atomic_store(&working, true);
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&writers[i], NULL, write_rounds, &numbers[i]), 0);
    }
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_rounds, NULL), 0);
    for (int i = 0; i < 15; i++) {
        must_compact();
        struct kvstore *copy = open_copy_under_writers();
        if (copy)
            must_close(copy);
    }
    atomic_store(&working, false);
    for (int i = 0; i < READERS; i++) {
        void *wrong;
        pthread_join(readers[i], &wrong);
        ck_assert_msg(wrong == NULL, "read %s", (char *)wrong);
    }
    void *rounds[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], &rounds[i]);
    struct kvstore *copy = open_copy();
    for (int i = 0; i < WRITERS; i++) {
        check_last_round(store, i, (int)(intptr_t)rounds[i]);
        check_last_round(copy, i, (int)(intptr_t)rounds[i]);
    }
    must_close(copy);
}
END_TEST

static atomic_bool call_waits;
static atomic_bool call_was_made;

static void wait_in_call(void)
{
    atomic_store(&call_was_made, true);
    while (atomic_load(&call_waits))
        clock_sleep_ms(1);
}

static int waiting_sync(int fd)
{
    wait_in_call();
    return fileio_system.sync_data(fd);
}

static ssize_t waiting_write(int fd, const void *bytes, size_t size, off_t offset)
{
    wait_in_call();
    return fileio_system.write_at(fd, bytes, size, offset);
}

static bool is_true(void *flag)
{
    return atomic_load((atomic_bool *)flag);
}

static bool has_no_keys(void *context)
{
    return total_statistics(context).keys == 0;
}

static void *compact_in_thread(void *argument)
{
    must_compact();
    return argument;
}

/* They are copied before they expire; and it is the sync of the new file that takes so long, or the
 * first write to it, when nobody else knows of it. They go once, for counts and quotas too. */
START_TEST(entries_that_expire_meanwhile_are_swept_afterwards)
{
    struct fileio table = fileio_system;
    pthread_t thread;
    char key[32];
    must_close(store);
    struct kvstore_options options = one_file;
    const struct kvstore_quota of_all = {.max_keys = 50};
    options.sweep_interval_ms = 5;
    options.quotas = &of_all;
    options.quota_count = 1;
    store = must_open(dir, &options);
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 300};
    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof key, "key %d", i);
        ck_assert_int_eq(kvstore_put(store, KEY(key), KEY("v"), &soon, NULL), KV_OK);
    }
    if (_i == 0)
        table.sync_data = waiting_sync;
    else
        table.write_at = waiting_write;
    fileio = &table;
    atomic_store(&call_waits, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, compact_in_thread, NULL), 0);
    ck_assert(wait_until(is_true, &call_was_made));
    while (clock_realtime_ms() <= soon.expiry_ms)
        clock_sleep_ms(1);
    clock_sleep_ms(30); /* a few sweeps more */
    ck_assert_ptr_null(get_text(store, "key 0"));
    atomic_store(&call_waits, false);
    pthread_join(thread, NULL);
    ck_assert(wait_until(has_no_keys, store));
    ck_assert_uint_eq(total_statistics(store).expired, 50);
    struct kvstore_quota_usage usage;
    kvstore_quota_usage(store, 0, &usage);
    ck_assert_uint_eq(usage.keys, 0);
    ck_assert_uint_eq(usage.bytes, 0);
    must_put(store, "one more", "v");
    must_close(store);
    store = NULL;
    fileio = &fileio_system;
}
END_TEST

/* As a power failure may leave it that comes before the header's page is written. Returns how many
 * past logs there are. */
static unsigned take_streams_from_past_logs(void)
{
    unsigned count = 0;
    struct image image;
    image_take(&image, dir);
    for (size_t i = 0; i < image.count; i++) {
        if (!strstr(image.files[i].name, ".past-"))
            continue;
        memset(image.files[i].bytes + fileheader_note_offset(FILE_NOTE_STREAM), 0,
               FILE_NOTE_PLACE_BYTES);
        count++;
    }
    image_put(&image, dir);
    image_free(&image);
    return count;
}

START_TEST(a_past_log_without_a_stream_is_removed)
{
    struct kvstore_options options = one_file;
    options.keep_changes_ms = 3600000;
    must_close(store);
    store = must_open(dir, &options);
    put_round(10, 0);
    must_compact();
    ck_assert_uint_eq(total_statistics(store).past_logs, 1);
    must_close(store);
    ck_assert_uint_eq(take_streams_from_past_logs(), 1);
    store = must_open(dir, &options);
    ck_assert_uint_eq(total_statistics(store).past_logs, 0);
    check_round(store, 10, 0);
    must_close(store);
    store = NULL;
    ck_assert_uint_eq(take_streams_from_past_logs(), 0);
}
END_TEST

START_TEST(closing_abandons_it)
{
    for (int round = 0; round < 4; round++)
        put_round(20000, round);
    must_close(store);
    struct kvstore_options eager = {.compact_min_bytes = 1000};
    store = must_open(dir, &eager);
    must_close(store);
    ck_assert(!has_file("data.0000.new"));
    store = must_open(dir, NULL);
    check_round(store, 20000, 3);
}
END_TEST

TEST_SUITE(kvstore_compact)
{
    TCase *tests = tcase_create("compact");
    one_file_case_add(tests);
    tcase_add_test(tests, what_is_dead_goes_and_what_is_alive_stays);
    tcase_add_test(tests, an_empty_file_can_be_compacted);
    tcase_add_test(tests, versions_never_go_back);
    tcase_add_test(tests, expired_entries_are_not_copied);
    tcase_add_test(tests, durable_stays_durable);
    tcase_add_test(tests, what_is_asked_for_while_one_ends_is_done);
    tcase_add_test(tests, enough_dead_bytes_start_it);
    tcase_add_test(tests, what_was_dead_at_open_starts_it);
    tcase_add_loop_test(tests, reads_and_writes_go_on_meanwhile, 0, locking_count());
    tcase_add_loop_test(tests, entries_that_expire_meanwhile_are_swept_afterwards, 0, 2);
    tcase_add_test(tests, a_past_log_without_a_stream_is_removed);
    tcase_add_test(tests, closing_abandons_it);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
