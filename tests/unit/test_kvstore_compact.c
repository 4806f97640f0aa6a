#include "kvstore/compact.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "kvstore/copylog.h"
#include "kvstore/fileio.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/unit/suites.h"

#define KEY(text) kv_slice_from_string(text)

/* Compaction only where a test asks for it. */
static const struct kvstore_options by_hand = {
    .create = true, .datafiles = 1, .compact_dead_percent = 100};

static char dir[STORE_DIR_BYTES];
static char copy_dir[STORE_DIR_BYTES];
static struct kvstore *store;

static void set_up(void)
{
    store_dir_make(dir);
    store_dir_make(copy_dir);
    store = must_open(dir, &by_hand);
}

static void tear_down(void)
{
    if (store)
        kvstore_close(store, NULL);
    fault_clear(); /* now that no thread of the store could be in the middle of a call */
    store_dir_remove(dir);
    store_dir_remove(copy_dir);
}

static void put_round(int keys, int round)
{
    char key[32], value[32];
    for (int i = 0; i < keys; i++) {
        snprintf(key, sizeof key, "key %d", i);
        snprintf(value, sizeof value, "value %d/%d", i, round);
        must_put(store, key, value);
    }
}

static void check_round(struct kvstore *opened, int keys, int round)
{
    char key[32], value[32];
    for (int i = 0; i < keys; i++) {
        snprintf(key, sizeof key, "key %d", i);
        snprintf(value, sizeof value, "value %d/%d", i, round);
        ck_assert_pstr_eq(get_text(opened, key), value);
    }
}

static void must_compact(void)
{
    struct kv_error error = {0};
    ck_assert_msg(kvstore_compact(store, 0, &error) == KV_OK, "%s", error.text);
}

/* The files as a crash at this moment would leave them. */
static struct kvstore *open_copy(void)
{
    struct image image;
    image_take(&image, dir);
    image_put(&image, copy_dir);
    image_free(&image);
    return must_open(copy_dir, NULL);
}

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
    store = must_open(dir, &by_hand);
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
    struct kvstore_options options = by_hand;
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
        struct kvstore *copy = open_copy();
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

static atomic_bool sync_waits;
static atomic_bool sync_was_called;

static int waiting_sync(int fd)
{
    atomic_store(&sync_was_called, true);
    while (atomic_load(&sync_waits))
        clock_sleep_ms(1);
    return fileio_system.sync_data(fd);
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

/* They have been copied when they expire, and are swept out of the old index only. */
START_TEST(entries_that_expire_meanwhile_are_swept_afterwards)
{
    struct fileio table = fileio_system;
    pthread_t thread;
    char key[32];
    must_close(store);
    struct kvstore_options options = by_hand;
    options.sweep_interval_ms = 5;
    store = must_open(dir, &options);
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 100};
    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof key, "key %d", i);
        ck_assert_int_eq(kvstore_put(store, KEY(key), KEY("v"), &soon, NULL), KV_OK);
    }
    table.sync_data = waiting_sync;
    fileio = &table;
    atomic_store(&sync_waits, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, compact_in_thread, NULL), 0);
    ck_assert(wait_until(is_true, &sync_was_called));
    ck_assert(wait_until(has_no_keys, store));
    clock_sleep_ms(30); /* a few sweeps more */
    atomic_store(&sync_waits, false);
    pthread_join(thread, NULL);
    ck_assert(wait_until(has_no_keys, store));
    must_close(store);
    store = NULL;
    fileio = &fileio_system;
}
END_TEST

/* Failures ------------------------------------------------------------------------------------- */

static bool file_exists(const char *name)
{
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* One row: a call that fails during the compaction. */
static const struct fault_plan failures[] = {
    {.call = FAULT_OPEN, .nth = 1, .length = 1, .error = EMFILE},
    {.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC},
    {.call = FAULT_MAP, .nth = 1, .error = ENOMEM},
    {.call = FAULT_SYNC_DATA, .nth = 1, .length = 1, .error = EIO},
    {.call = FAULT_SYNC_DATA, .nth = 2, .length = 1, .error = EIO},
    {.call = FAULT_RENAME, .nth = 1, .length = 1, .error = EIO},
};

START_TEST(a_failure_leaves_the_file_as_it_was)
{
    struct kv_error error = {0};
    for (int round = 0; round < 3; round++)
        put_round(1000, round);
    fault_install(&failures[_i]);
    enum kv_status status = kvstore_compact(store, 0, &error);
    fault_clear();
    ck_assert_int_ne(status, KV_OK);
    ck_assert_int_eq(error.status, status);
    ck_assert_ptr_nonnull(strstr(error.text, "data.0000"));
    ck_assert(!file_exists("data.0000.new"));
    struct kvstore_file_statistics total = total_statistics(store);
    ck_assert_uint_eq(total.compaction_failures, 1);
    ck_assert_uint_eq(total.compactions, 0);
    ck_assert(!total.read_only);
    check_round(store, 1000, 2);
    put_round(1000, 3);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    must_compact();
    check_round(store, 1000, 3);
}
END_TEST

/* The values of two keys that no bundle holds, and beside them small ones that one does. */
#define LARGE_BYTES 300000u

static char large_value[LARGE_BYTES];

static void put_large_and_small(void)
{
    put_round(2000, 0);
    put_round(1000, 1);
    memset(large_value, 'l', sizeof large_value);
    struct kv_slice value = kv_slice(large_value, sizeof large_value);
    ck_assert_int_eq(kvstore_put(store, KEY("large 1"), value, NULL, NULL), KV_OK);
    for (int i = 1000; i < 2000; i++)
        must_put(store, numbered("key", i), "small");
    ck_assert_int_eq(kvstore_put(store, KEY("large 2"), value, NULL, NULL), KV_OK);
}

static bool has_large(struct kvstore *opened, const char *key)
{
    static char got[LARGE_BYTES];
    struct kvstore_entry entry;
    ck_assert_int_eq(kvstore_get(opened, KEY(key), got, sizeof got, &entry), KV_OK);
    return entry.value_bytes == sizeof got && memcmp(got, large_value, sizeof got) == 0;
}

static void check_large_and_small(struct kvstore *opened)
{
    check_round(opened, 1000, 1);
    for (int i = 1000; i < 2000; i++)
        ck_assert_pstr_eq(get_text(opened, numbered("key", i)), "small");
    ck_assert(has_large(opened, "large 1") && has_large(opened, "large 2"));
}

static ssize_t (*write_below)(int fd, const void *data, size_t size, off_t offset);
static atomic_size_t largest_write;

static ssize_t measured_write(int fd, const void *data, size_t size, off_t offset)
{
    if (size > atomic_load(&largest_write))
        atomic_store(&largest_write, size);
    return write_below(fd, data, size, offset);
}

static void measure_writes(struct fileio *table)
{
    *table = *fileio;
    write_below = table->write_at;
    table->write_at = measured_write;
    fileio = table;
}

/* One write after the other: of bundles, and of the pieces of a record that is larger than one. */
START_TEST(a_write_that_fails_leaves_the_file_as_it_was)
{
    static struct fileio table; /* the store's threads may use it until it is closed */
    struct fault_plan plan = {
        .call = FAULT_WRITE, .length = 1, .error = ENOSPC, .written_bytes = 9};
    put_large_and_small();
    bool fired = true;
    for (plan.nth = 1; fired; plan.nth++) {
        struct kv_error error = {0};
        fault_install(&plan);
        measure_writes(&table);
        enum kv_status status = kvstore_compact(store, 0, &error);
        fired = fault_has_fired();
        fault_clear();
        ck_assert_int_eq(status, fired ? KV_NO_SPACE : KV_OK);
        ck_assert(!file_exists("data.0000.new"));
        check_large_and_small(store);
    }
    ck_assert_uint_gt(plan.nth, 8);
    ck_assert_uint_le(atomic_load(&largest_write), WINDOW_KEPT_BYTES);
    ck_assert_uint_eq(total_statistics(store).dead_bytes, 0);
    struct kvstore *copy = open_copy();
    check_large_and_small(copy);
    must_close(copy);
}
END_TEST

static struct generation *make_next(void)
{
    struct file_identity identity = store->files[0].current->log.identity;
    struct logfile log;
    struct generation *next;
    ck_assert_int_eq(logfile_create(&log, KVSTORE_IO_MMAP, store->dir_fd, "data.0000.new",
                                    &identity, 0, 1 << 20, NULL),
                     KV_OK);
    ck_assert_int_eq(generation_create(log, &next), KV_OK);
    return next;
}

/* The index of the next generation has what its log has not: between the failure and the moment when
 * the compactor gives it up nobody may use it. */
START_TEST(after_a_failed_copy_writers_leave_the_next_generation_alone)
{
    const struct fault_plan once = {.call = FAULT_WRITE, .nth = 1, .length = 1, .error = EIO};
    static struct copylog copying;
    put_round(100, 0);
    struct generation *next = make_next();
    copylog_start(&copying, store, &store->files[0], next);
    fault_install(&once);
    ck_assert_int_eq(copylog_step(&copying), KV_IO);
    fault_clear();
    put_round(100, 1);
    ck_assert_uint_eq(next->log.tail, FILE_HEADER_BYTES);
    store->files[0].next = NULL;
    generation_free(next);
    check_round(store, 100, 1);
}
END_TEST

/* The name of the new file is on disk, or it is not: nothing may be promised any more. */
START_TEST(a_directory_that_can_not_be_synced_stops_the_file)
{
    const struct fault_plan once = {.call = FAULT_SYNC_DIR, .nth = 1, .length = 1, .error = EIO};
    struct kv_error error = {0};
    put_round(100, 0);
    fault_install(&once);
    enum kv_status status = kvstore_compact(store, 0, &error);
    fault_clear();
    ck_assert_int_eq(status, KV_IO);
    ck_assert(total_statistics(store).read_only);
    check_round(store, 100, 0);
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("v"), NULL, NULL), KV_READ_ONLY);
    kvstore_close(store, NULL);
    store = must_open(dir, NULL);
    check_round(store, 100, 0);
}
END_TEST

START_TEST(a_damaged_record_stops_it)
{
    struct kv_error error = {0};
    put_round(100, 0);
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/data.0000", dir);
    FILE *log = fopen(path, "r+");
    ck_assert_ptr_nonnull(log);
    fseek(log, FILE_HEADER_BYTES + 30, SEEK_SET);
    fputc(0xee, log);
    fclose(log);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "offset 4096"));
    ck_assert_uint_eq(total_statistics(store).keys, 100);
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
    ck_assert(!file_exists("data.0000.new"));
    store = must_open(dir, NULL);
    check_round(store, 20000, 3);
}
END_TEST

Suite *suite_kvstore_compact(void)
{
    Suite *suite = suite_create("kvstore_compact");
    TCase *tests = tcase_create("compact");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_dead_goes_and_what_is_alive_stays);
    tcase_add_test(tests, an_empty_file_can_be_compacted);
    tcase_add_test(tests, versions_never_go_back);
    tcase_add_test(tests, expired_entries_are_not_copied);
    tcase_add_test(tests, durable_stays_durable);
    tcase_add_test(tests, enough_dead_bytes_start_it);
    tcase_add_test(tests, what_was_dead_at_open_starts_it);
    tcase_add_loop_test(tests, reads_and_writes_go_on_meanwhile, 0, KVSTORE_LOCKING_COUNT);
    tcase_add_test(tests, entries_that_expire_meanwhile_are_swept_afterwards);
    tcase_add_loop_test(tests, a_failure_leaves_the_file_as_it_was, 0,
                        sizeof failures / sizeof failures[0]);
    tcase_add_test(tests, a_write_that_fails_leaves_the_file_as_it_was);
    tcase_add_test(tests, after_a_failed_copy_writers_leave_the_next_generation_alone);
    tcase_add_test(tests, a_directory_that_can_not_be_synced_stops_the_file);
    tcase_add_test(tests, a_damaged_record_stops_it);
    tcase_add_test(tests, closing_abandons_it);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return suite;
}
