#include "kvstore/sync/sync.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/time/clock.h"
#include "kvstore/format/fileheader.h"
#include "tests/support/fault.h"
#include "tests/support/no_sync.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;

/* What the listener was told, per file. */
static struct told {
    pthread_mutex_t mutex;
    uint64_t position[KVSTORE_DEFAULT_DATAFILES];
    unsigned calls;
    unsigned failures;
} told = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void listen(void *context, uint32_t file, uint64_t position, enum kv_status status)
{
    struct told *mine = context;
    pthread_mutex_lock(&mine->mutex);
    mine->calls++;
    mine->failures += status == KV_NOT_DURABLE && position == UINT64_MAX;
    if (status == KV_OK && position > mine->position[file])
        mine->position[file] = position;
    pthread_mutex_unlock(&mine->mutex);
}

static void open_with(enum kvstore_durability durability, uint32_t sync_interval_ms)
{
    struct kvstore_options options = {
        .create = true, .durability = durability, .sync_interval_ms = sync_interval_ms};
    store = must_open(dir, &options);
    kvstore_set_sync_listener(store, listen, &told);
}

static void set_up(void)
{
    store_dir_make(dir);
    memset(told.position, 0, sizeof told.position);
    told.calls = told.failures = 0;
    store = NULL;
}

static void tear_down(void)
{
    if (store)
        kvstore_close(store, NULL);
    fault_clear(); /* now that no thread of the store could be in the middle of a call */
    store_dir_remove(dir);
}

START_TEST(a_waited_for_write_is_durable)
{
    open_with(KVSTORE_SYNC_NONE, 0);
    struct kvstore_ticket ticket = must_put_for_ticket(store, "key", "value");
    ck_assert(!kvstore_is_durable(store, ticket));
    ck_assert_int_eq(kvstore_wait_durable(store, ticket), KV_OK);
    ck_assert(kvstore_is_durable(store, ticket));
    struct kvstore_file_statistics total = total_statistics(store);
    ck_assert_uint_eq(total.synced_bytes, total.appended_bytes);
    ck_assert_uint_eq(total.syncs, 1);
    ck_assert_int_eq(kvstore_wait_durable(store, ticket), KV_OK);
    ck_assert_uint_eq(total_statistics(store).syncs, 1);
}
END_TEST

START_TEST(there_is_nothing_to_wait_for_without_a_write)
{
    open_with(KVSTORE_SYNC_ALWAYS, 0);
    const struct kvstore_ticket nothing = {0, 0}, no_file = {9999, 5}, ahead = {1, 1u << 30};
    ck_assert_int_eq(kvstore_wait_durable(store, nothing), KV_OK);
    ck_assert(kvstore_is_durable(store, nothing));
    ck_assert_int_eq(kvstore_wait_durable(store, no_file), KV_BAD_REQUEST);
    kvstore_request_sync(store, no_file);
    /* A position that was never given: all there is will do. */
    ck_assert_int_eq(kvstore_wait_durable(store, ahead), KV_OK);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert_uint_eq(total_statistics(store).syncs, 0);
}
END_TEST

static struct kvstore_ticket awaited;

static bool listener_knows(void *context)
{
    (void)context;
    pthread_mutex_lock(&told.mutex);
    bool knows = told.position[awaited.file] >= awaited.position;
    pthread_mutex_unlock(&told.mutex);
    return knows;
}

START_TEST(the_listener_is_told_of_what_was_requested)
{
    open_with(KVSTORE_SYNC_NONE, 0);
    char key[32];
    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof key, "%d", i);
        awaited = must_put_for_ticket(store, key, "value");
        kvstore_request_sync(store, awaited);
        ck_assert(wait_until(listener_knows, NULL));
        ck_assert(kvstore_is_durable(store, awaited));
    }
}
END_TEST

static bool was_called_again(void *context)
{
    pthread_mutex_lock(&told.mutex);
    bool again = told.calls > *(unsigned *)context;
    pthread_mutex_unlock(&told.mutex);
    return again;
}

/* Whoever asks too late, after the sync has happened, is told all the same. */
START_TEST(a_request_for_what_is_durable_is_answered)
{
    open_with(KVSTORE_SYNC_NONE, 0);
    struct kvstore_ticket ticket = must_put_for_ticket(store, "key", "value");
    ck_assert_int_eq(kvstore_wait_durable(store, ticket), KV_OK);
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&told.mutex);
        unsigned calls = told.calls;
        pthread_mutex_unlock(&told.mutex);
        kvstore_request_sync(store, ticket);
        ck_assert(wait_until(was_called_again, &calls));
    }
    ck_assert_uint_eq(total_statistics(store).syncs, 1);
}
END_TEST

static bool all_is_synced(void *context)
{
    struct kvstore_file_statistics total = total_statistics(context);
    return total.synced_bytes == total.appended_bytes;
}

START_TEST(the_interval_syncs_by_itself)
{
    open_with(KVSTORE_SYNC_INTERVAL, 5);
    char key[32];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 20; i++) {
            snprintf(key, sizeof key, "%d", i);
            must_put(store, key, "value");
        }
        ck_assert(wait_until(all_is_synced, store));
    }
    ck_assert_uint_ge(total_statistics(store).syncs, 10);
}
END_TEST

/* The compaction has synced what the first timer was for: the next write must arm another. */
START_TEST(the_interval_goes_on_after_a_compaction)
{
    const uint32_t interval_ms = 20;
    struct kvstore_options options = {.create = true,
                                      .datafiles = 1,
                                      .durability =
                                          _i == 0 ? KVSTORE_SYNC_INTERVAL : KVSTORE_SYNC_ALWAYS,
                                      .sync_interval_ms = interval_ms};
    store = must_open(dir, &options);
    must_put(store, "before", "value");
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    clock_sleep_ms(3 * interval_ms);
    must_put(store, "after", "value");
    ck_assert(wait_until(all_is_synced, store));
}
END_TEST

START_TEST(without_an_interval_nothing_is_synced)
{
    open_with(KVSTORE_SYNC_NONE, 1);
    must_put(store, "key", "value");
    clock_sleep_ms(50);
    ck_assert_uint_eq(total_statistics(store).syncs, 0);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert(all_is_synced(store));
}
END_TEST

/* Group commit --------------------------------------------------------------------------------- */

#define COMMITTERS       8
#define COMMITS_A_THREAD 30

static void *commit_many(void *argument)
{
    char key[32];
    for (int i = 0; i < COMMITS_A_THREAD; i++) {
        snprintf(key, sizeof key, "%d/%d", *(int *)argument, i);
        struct kvstore_ticket ticket = must_put_for_ticket(store, key, "value");
        if (kvstore_wait_durable(store, ticket) != KV_OK || !kvstore_is_durable(store, ticket))
            return argument;
    }
    return NULL;
}

/* How long the oldest write of the file waits for the disk. */
static uint64_t unsynced_ms(uint32_t file)
{
    struct kvstore_file_statistics statistics;
    kvstore_file_statistics(store, file, &statistics);
    return statistics.unsynced_ms;
}

START_TEST(a_shorter_interval_holds_for_what_was_written_before)
{
    open_with(KVSTORE_SYNC_INTERVAL, 3600000);
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_put(store, KEY("a"), KEY("1"), NULL, &written), KV_OK);
    clock_sleep_ms(20);
    ck_assert_uint_gt(unsynced_ms(written.ticket.file), 0);
    ck_assert_int_eq(kvstore_set_sync(store, KVSTORE_SYNC_INTERVAL, 1), KV_OK);
    while (!kvstore_is_durable(store, written.ticket))
        clock_sleep_ms(1);
    ck_assert_uint_eq(unsynced_ms(written.ticket.file), 0);
}
END_TEST

START_TEST(an_interval_that_was_none_holds_for_what_was_written_before)
{
    open_with(KVSTORE_SYNC_NONE, 0);
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_put(store, KEY("a"), KEY("1"), NULL, &written), KV_OK);
    clock_sleep_ms(20);
    ck_assert_uint_gt(unsynced_ms(written.ticket.file), 0);
    ck_assert_int_eq(kvstore_set_sync(store, KVSTORE_SYNC_INTERVAL, 1), KV_OK);
    while (!kvstore_is_durable(store, written.ticket))
        clock_sleep_ms(1);
    ck_assert_int_eq(kvstore_set_sync(store, (enum kvstore_durability)77, 1), KV_USAGE);
}
END_TEST

START_TEST(many_writers_share_a_sync)
{
    struct kvstore_options options = {
        .create = true, .datafiles = 1, .durability = KVSTORE_SYNC_ALWAYS};
    store = must_open(dir, &options);
    pthread_t threads[COMMITTERS];
    int numbers[COMMITTERS];
    for (int i = 0; i < COMMITTERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, commit_many, &numbers[i]), 0);
    }
    for (int i = 0; i < COMMITTERS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(total_statistics(store).keys, COMMITTERS * COMMITS_A_THREAD);
    ck_assert_uint_lt(total_statistics(store).syncs, COMMITTERS * COMMITS_A_THREAD * 3 / 4);
}
END_TEST

#define ROUNDS        20000
#define ROUND_WRITERS 3

static pthread_barrier_t round_over;

static void *commit_in_rounds(void *argument)
{
    char key[32];
    void *failed = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(key, sizeof key, "%d", *(int *)argument);
        struct kvstore_ticket ticket = must_put_for_ticket(store, key, "value");
        if (kvstore_wait_durable(store, ticket) != KV_OK)
            failed = argument;
        pthread_barrier_wait(&round_over);
    }
    return failed;
}

/* With no interval, and nobody who writes before all are done, a writer that was forgotten sleeps
 * for good: the test ends by its time limit. */
START_TEST(no_writer_is_left_asleep)
{
    struct kvstore_options options = {.create = true, .datafiles = 1};
    no_sync_install();
    store = must_open(dir, &options);
    pthread_t threads[ROUND_WRITERS];
    int numbers[ROUND_WRITERS];
    pthread_barrier_init(&round_over, NULL, ROUND_WRITERS);
    for (int i = 0; i < ROUND_WRITERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, commit_in_rounds, &numbers[i]), 0);
    }
    for (int i = 0; i < ROUND_WRITERS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    pthread_barrier_destroy(&round_over);
    no_sync_clear();
}
END_TEST

/* What the header says ------------------------------------------------------------------------- */

#define HOUR_MS 3600000u

static struct file_progress noted_progress(void)
{
    struct image image;
    struct file_identity identity;
    struct file_progress progress;
    image_take(&image, dir);
    const struct image_file *file = image_find(&image, "data.0000");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fileheader_read_identity(file->bytes, &identity), FILEHEADER_VALID);
    ck_assert(fileheader_read_progress(file->bytes, identity.salt, &progress));
    image_free(&image);
    return progress;
}

static uint64_t tail_of_the_log(void)
{
    return FILE_HEADER_BYTES + total_statistics(store).appended_bytes;
}

static bool all_is_noted(void *context)
{
    (void)context;
    return noted_progress().synced_offset == tail_of_the_log();
}

static void open_one_file(uint32_t sync_interval_ms)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 1,
                                      .durability = KVSTORE_SYNC_ALWAYS,
                                      .sync_interval_ms = sync_interval_ms};
    store = must_open(dir, &options);
}

static void put_durably(const char *key, struct kv_slice value)
{
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_put(store, KEY(key), value, NULL, &written), KV_OK);
    ck_assert_int_eq(kvstore_wait_durable(store, written.ticket), KV_OK);
}

START_TEST(what_is_on_disk_is_not_noted_at_each_sync)
{
    open_one_file(HOUR_MS);
    put_durably("first", KEY("value"));
    struct file_progress before = noted_progress();
    for (int i = 0; i < 20; i++)
        put_durably(numbered("key", i), KEY("value"));
    ck_assert_uint_eq(total_statistics(store).syncs, 21);
    ck_assert_uint_eq(noted_progress().sequence, before.sequence);
    uint64_t tail = tail_of_the_log();
    must_close(store);
    store = NULL;
    ck_assert_uint_eq(noted_progress().synced_offset, tail);
}
END_TEST

START_TEST(what_is_on_disk_is_noted_within_the_interval)
{
    open_one_file(20);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 5; i++)
            put_durably(numbered("key", i), KEY("value"));
        ck_assert(wait_until(all_is_noted, NULL));
    }
}
END_TEST

/* Whatever the interval. */
START_TEST(the_note_lags_by_a_megabyte_at_most)
{
    static char value[200000];
    const uint64_t most_bytes = UINT64_C(1) << 20;
    open_one_file(HOUR_MS);
    for (int i = 0; i < 20; i++) {
        put_durably(numbered("key", i), kv_slice(value, sizeof value));
        ck_assert_uint_lt(tail_of_the_log() - noted_progress().synced_offset, most_bytes);
    }
}
END_TEST

/* Failures ------------------------------------------------------------------------------------- */

static bool listener_knows_of_failure(void *context)
{
    (void)context;
    pthread_mutex_lock(&told.mutex);
    bool knows = told.failures > 0;
    pthread_mutex_unlock(&told.mutex);
    return knows;
}

START_TEST(a_failed_sync_stops_the_file_for_good)
{
    const struct fault_plan once = {.call = FAULT_SYNC_DATA, .nth = 1, .length = 1, .error = EIO};
    open_with(KVSTORE_SYNC_NONE, 0);
    struct kvstore_ticket before = must_put_for_ticket(store, "key", "durable");
    ck_assert_int_eq(kvstore_wait_durable(store, before), KV_OK);
    fault_install(&once);
    struct kvstore_ticket lost = must_put_for_ticket(store, "key", "not durable");
    ck_assert_int_eq(kvstore_wait_durable(store, lost), KV_NOT_DURABLE);
    ck_assert(wait_until(listener_knows_of_failure, NULL));
    ck_assert(kvstore_is_durable(store, before));
    ck_assert(!kvstore_is_durable(store, lost));

    /* The next fdatasync would succeed: it must not be tried. */
    ck_assert_int_eq(kvstore_wait_durable(store, lost), KV_NOT_DURABLE);
    ck_assert_int_eq(kvstore_sync(store), KV_NOT_DURABLE);
    ck_assert_uint_eq(fault_calls(FAULT_SYNC_DATA), 1);
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("v"), NULL, NULL), KV_READ_ONLY);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_READ_ONLY);
    struct kv_error error = {0};
    ck_assert_int_eq(kvstore_compact(store, lost.file, &error), KV_READ_ONLY);
    ck_assert_str_eq(get_text(store, "key"), "not durable");
    struct kvstore_file_statistics file;
    kvstore_file_statistics(store, lost.file, &file);
    ck_assert(file.read_only);
    ck_assert_uint_eq(file.sync_failures, 1);
}
END_TEST

START_TEST(a_request_after_a_failure_is_answered)
{
    const struct fault_plan once = {.call = FAULT_SYNC_DATA, .nth = 1, .length = 1, .error = EIO};
    open_with(KVSTORE_SYNC_NONE, 0);
    fault_install(&once);
    struct kvstore_ticket lost = must_put_for_ticket(store, "key", "value");
    ck_assert_int_eq(kvstore_wait_durable(store, lost), KV_NOT_DURABLE);
    ck_assert(wait_until(listener_knows_of_failure, NULL));
    unsigned calls = told.calls;
    kvstore_request_sync(store, lost);
    ck_assert(wait_until(was_called_again, &calls));
    ck_assert_uint_eq(told.failures, told.calls);
}
END_TEST

START_TEST(other_files_go_on_after_a_failure)
{
    const struct fault_plan once = {.call = FAULT_SYNC_DATA, .nth = 1, .length = 1, .error = EIO};
    open_with(KVSTORE_SYNC_NONE, 0);
    fault_install(&once);
    struct kvstore_ticket lost = must_put_for_ticket(store, "key", "value");
    ck_assert_int_eq(kvstore_wait_durable(store, lost), KV_NOT_DURABLE);
    char key[32];
    int written = 0;
    for (int i = 0; i < 100; i++) {
        struct kvstore_written result;
        snprintf(key, sizeof key, "%d", i);
        enum kv_status status = kvstore_put(store, KEY(key), KEY("v"), NULL, &result);
        bool same_file = kvstore_file_of(store, KEY(key)) == lost.file;
        ck_assert_int_eq(status, same_file ? KV_READ_ONLY : KV_OK);
        if (status == KV_OK)
            ck_assert_int_eq(kvstore_wait_durable(store, result.ticket), KV_OK);
        written += status == KV_OK;
    }
    ck_assert_int_gt(written, 50);
    struct kv_error error = {0};
    ck_assert_int_eq(kvstore_close(store, &error), KV_NOT_DURABLE);
    ck_assert_ptr_nonnull(strstr(error.text, "data.000"));
    store = must_open(dir, NULL);
    ck_assert_uint_eq(total_statistics(store).keys, (uint64_t)written + 1);
}
END_TEST

TEST_SUITE(kvstore_sync)
{
    TCase *tests = tcase_create("sync");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_waited_for_write_is_durable);
    tcase_add_test(tests, there_is_nothing_to_wait_for_without_a_write);
    tcase_add_test(tests, the_listener_is_told_of_what_was_requested);
    tcase_add_test(tests, a_request_for_what_is_durable_is_answered);
    tcase_add_test(tests, the_interval_syncs_by_itself);
    tcase_add_loop_test(tests, the_interval_goes_on_after_a_compaction, 0, 2);
    tcase_add_test(tests, without_an_interval_nothing_is_synced);
    tcase_add_test(tests, a_shorter_interval_holds_for_what_was_written_before);
    tcase_add_test(tests, an_interval_that_was_none_holds_for_what_was_written_before);
    tcase_add_test(tests, many_writers_share_a_sync);
    tcase_add_test(tests, no_writer_is_left_asleep);
    tcase_add_test(tests, what_is_on_disk_is_not_noted_at_each_sync);
    tcase_add_test(tests, what_is_on_disk_is_noted_within_the_interval);
    tcase_add_test(tests, the_note_lags_by_a_megabyte_at_most);
    tcase_add_test(tests, a_failed_sync_stops_the_file_for_good);
    tcase_add_test(tests, a_request_after_a_failure_is_answered);
    tcase_add_test(tests, other_files_go_on_after_a_failure);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
