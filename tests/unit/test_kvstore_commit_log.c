/*
 * The commit log: several data files become durable with one sync, what they lack after a power
 * failure is brought in from it, nothing else is, and a sync of it that fails is one of each file.
 */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/log.h"
#include "common/memory/cursor.h"
#include "common/time/clock.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/logtail.h"
#include "mqkv/kvstore.h"
#include "tests/support/fault.h"
#include "tests/support/no_sync.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define DATAFILES   4u
#define KEYS        24 /* each file has some */
#define ROUNDS      2000
#define PATIENCE_MS 20000u /* with another thread */

static char dir[STORE_DIR_BYTES];
static struct kvstore_options options = {.create = true,
                                         .datafiles = DATAFILES,
                                         .durability = KVSTORE_SYNC_ALWAYS,
                                         .sync_interval_ms = 3600000,
                                         .compact_dead_percent = 100};

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR + 1);
    store_dir_make(dir);
}

static void teardown(void)
{
    fault_clear();
    store_dir_remove(dir);
}

/* Puts all keys and asks for their syncs, as a daemon does for a message. taken: which were; NULL:
 * all must be. A file that has failed a sync since the last put refuses them. */
static void put_all(struct kvstore *store, int round, struct kvstore_ticket tickets[KEYS],
                    bool taken[KEYS])
{
    for (int i = 0; i < KEYS; i++) {
        char value[32];
        struct kvstore_written written = {0};
        int bytes = snprintf(value, sizeof value, "value %d of %d", i, round);
        enum kv_status status = kvstore_put(store, kv_slice_from_string(numbered("key", i)),
                                            kv_slice(value, (size_t)bytes), NULL, &written);
        if (!taken || status != KV_READ_ONLY)
            ck_assert_int_eq(status, KV_OK);
        if (taken)
            taken[i] = status == KV_OK;
        tickets[i] = written.ticket;
    }
    for (int i = 0; i < KEYS; i++)
        if (!taken || taken[i])
            kvstore_request_sync(store, tickets[i]);
}

static bool are_durable(const struct kvstore *store, const struct kvstore_ticket tickets[KEYS])
{
    for (int i = 0; i < KEYS; i++)
        if (!kvstore_is_durable(store, tickets[i]))
            return false;
    return true;
}

/* Waits for the syncs that were asked for. */
static void await_durable(const struct kvstore *store, const struct kvstore_ticket tickets[KEYS])
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + PATIENCE_MS;
    while (!are_durable(store, tickets)) {
        if (clock_monotonic_coarse_ms() >= until_ms)
            ck_abort_msg("syncs that were asked for are not made");
        sched_yield();
    }
}

static void commit_all(struct kvstore *store, int round)
{
    struct kvstore_ticket tickets[KEYS];
    put_all(store, round, tickets, NULL);
    await_durable(store, tickets);
}

static void check_value(struct kvstore *store, int i, int round)
{
    char value[32];
    snprintf(value, sizeof value, "value %d of %d", i, round);
    ck_assert_pstr_eq(get_text(store, numbered("key", i)), value);
}

static void check_all(struct kvstore *store, int round)
{
    for (int i = 0; i < KEYS; i++)
        check_value(store, i, round);
}

/* Commits rounds until one has taken a single sync; its number. */
static int commit_until_one_sync(struct kvstore *store)
{
    for (int round = 1; round <= ROUNDS; round++) {
        fault_install(&(struct fault_plan){.call = FAULT_SYNC_DATA});
        commit_all(store, round);
        fault_clear();
        if (fault_calls(FAULT_SYNC_DATA) == 1)
            return round;
    }
    ck_abort_msg("no round of %d was committed with one sync", ROUNDS);
    return 0;
}

/* What the disk has if the power goes after that round: the data files as they were before it. */
static int lose_a_round(struct image *image)
{
    struct image after;
    struct kvstore *store = must_open(dir, &options);
    commit_all(store, 0);
    int round = commit_until_one_sync(store) + 1;
    for (;; round++) {
        image_take(image, dir);
        fault_install(&(struct fault_plan){.call = FAULT_SYNC_DATA});
        commit_all(store, round);
        fault_clear();
        if (fault_calls(FAULT_SYNC_DATA) == 1)
            break;
        image_free(image);
    }
    image_take(&after, dir);
    struct image_file *old = image_find(image, COMMIT_LOG_NAME);
    const struct image_file *new = image_find(&after, COMMIT_LOG_NAME);
    ck_assert_uint_eq(old->size, COMMIT_LOG_BYTES);
    memcpy(old->bytes, new->bytes, new->size);
    image_free(&after);
    kvstore_close(store, NULL);
    image_put(image, dir);
    return round;
}

START_TEST(files_share_a_sync)
{
    struct kvstore *store = must_open(dir, &options);
    commit_until_one_sync(store);
    must_close(store);
    struct image image;
    image_take(&image, dir);
    ck_assert_ptr_null(image_find(&image, COMMIT_LOG_NAME)); /* not after a clean close */
    image_free(&image);
}
END_TEST

START_TEST(what_the_files_lack_is_brought_in)
{
    struct image image;
    int round = lose_a_round(&image);
    struct kvstore_options reading = {.read_only = true, .io = (enum kvstore_io)_i};
    struct kvstore *store = must_open(dir, &reading);
    check_all(store, round);
    must_close(store);
    struct image unchanged;
    image_take(&unchanged, dir);
    for (size_t i = 0; i < image.count; i++)
        ck_assert_mem_eq(image_find(&unchanged, image.files[i].name)->bytes, image.files[i].bytes,
                         image.files[i].size);
    image_free(&unchanged);
    image_free(&image);

    char output[4096];
    if (have_kvcheck())
        ck_assert_msg(run_kvcheck(dir, NULL, NULL, output, sizeof output) == 0, "%s", output);
    struct kvstore_options writing = options;
    writing.io = (enum kvstore_io)_i;
    store = must_open(dir, &writing);
    check_all(store, round);
    commit_all(store, round + 1);
    must_close(store);
    store = must_open(dir, &writing);
    check_all(store, round + 1);
    must_close(store);
}
END_TEST

/* The keys of a file hold the round or the one before, or one in between. */
START_TEST(a_damaged_log_ends_where_it_is_damaged)
{
    struct image image;
    lose_a_round(&image);
    struct image_file *log = image_find(&image, COMMIT_LOG_NAME);
    for (size_t at = 0; at < (size_t)COMMIT_HEADER_BYTES + 2048; at += at < 64 ? 1 : 97) {
        log->bytes[at] ^= 0x40;
        image_put(&image, dir);
        log->bytes[at] ^= 0x40;
        struct kvstore *store = must_open(dir, &options);
        for (int i = 0; i < KEYS; i++)
            ck_assert_ptr_nonnull(get_text(store, numbered("key", i)));
        must_close(store);
    }
    log->size = COMMIT_HEADER_BYTES + 40; /* cut */
    image_put(&image, dir);
    must_close(must_open(dir, &options));
    log->size = COMMIT_LOG_BYTES;
    image_free(&image);
}
END_TEST

START_TEST(hostile_entries_are_ignored)
{
    struct image image;
    lose_a_round(&image);
    struct image_file *log = image_find(&image, COMMIT_LOG_NAME);
    const struct image_file *data = image_find(&image, "data.0000");
    struct file_identity identity;
    ck_assert_int_eq(fileheader_read_identity(data->bytes, &identity), FILEHEADER_VALID);
    const struct commit_entry entries[] = {
        {0, 8, identity.salt, 0},
        {0, 8, identity.salt, FILE_HEADER_BYTES - 1},
        {0, 8, identity.salt, data->size - 7},
        {0, 8, identity.salt, UINT64_MAX - 3},
        {0, 8, identity.salt + 1, FILE_HEADER_BYTES},
        {UINT32_MAX, 8, identity.salt, FILE_HEADER_BYTES},
    };
    memset(log->bytes, 0, log->size);
    commit_header_write(log->bytes, identity.store_seed, 7);
    uint64_t at = COMMIT_HEADER_BYTES;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        memset(log->bytes + at + COMMIT_ENTRY_BYTES, 0xff, entries[i].size);
        commit_entry_write(log->bytes + at, &entries[i], 7, at);
        at += commit_entry_size(entries[i].size);
    }
    store_u32(log->bytes + at + 8, UINT32_MAX); /* an entry that is longer than the log */
    image_put(&image, dir);
    struct kvstore_options reading = {.read_only = true};
    must_close(must_open(dir, &reading));
    struct kvstore *store = must_open(dir, &options);
    for (int i = 0; i < KEYS; i++)
        ck_assert_ptr_nonnull(get_text(store, numbered("key", i)));
    must_close(store);
    image_free(&image);
}
END_TEST

START_TEST(a_log_of_another_store_is_removed)
{
    struct image image;
    lose_a_round(&image);
    struct image_file *log = image_find(&image, COMMIT_LOG_NAME);
    uint64_t epoch;
    struct file_identity identity;
    fileheader_read_identity(image_find(&image, "data.0000")->bytes, &identity);
    ck_assert(commit_header_read(log->bytes, identity.store_seed, &epoch));
    commit_header_write(log->bytes, identity.store_seed + 1, epoch);
    image_put(&image, dir);
    image_free(&image);
    must_close(must_open(dir, &options));
    image_take(&image, dir);
    ck_assert_ptr_null(image_find(&image, COMMIT_LOG_NAME));
    image_free(&image);
}
END_TEST

/* Whoever finds something else under the name may have lost the last writes: no start. */
START_TEST(only_a_file_is_taken_for_a_log)
{
    struct kvstore *store;
    struct kv_error error = {0};
    char path[STORE_DIR_BYTES + 32];
    must_close(must_open(dir, &options));
    snprintf(path, sizeof path, "%s/" COMMIT_LOG_NAME, dir);
    ck_assert_int_eq(symlink("data.0000", path), 0);
    ck_assert_int_ne(kvstore_open(dir, &options, &store, &error), KV_OK);
    ck_assert_ptr_nonnull(strstr(error.text, COMMIT_LOG_NAME));
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_ne(kvstore_open(dir, &options, &store, &error), KV_OK);
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_ne(kvstore_open(dir, &options, &store, &error), KV_OK);
    rmdir(path);
    must_close(must_open(dir, &options));
}
END_TEST

START_TEST(a_failed_sync_of_it_is_one_of_the_files)
{
    struct kvstore_ticket tickets[KEYS];
    struct kvstore *store = must_open(dir, &options);
    int round = commit_until_one_sync(store);
    fault_install(&(struct fault_plan){.call = FAULT_SYNC_DATA, .nth = 1, .error = EIO});
    bool taken[KEYS];
    put_all(store, round + 1, tickets, taken);
    for (int i = 0; i < KEYS; i++)
        if (taken[i])
            ck_assert_int_eq(kvstore_wait_durable(store, tickets[i]), KV_NOT_DURABLE);
    for (int i = 0; i < KEYS; i++) {
        struct kv_slice key = kv_slice_from_string(numbered("key", i));
        ck_assert_int_eq(kvstore_put(store, key, key, NULL, NULL), KV_READ_ONLY);
        check_value(store, i, taken[i] ? round + 1 : round); /* reads go on */
    }
    fault_clear();
    ck_assert_int_eq(kvstore_close(store, NULL), KV_NOT_DURABLE);
    struct image image;
    image_take(&image, dir);
    ck_assert_ptr_nonnull(image_find(&image, COMMIT_LOG_NAME)); /* for the next start */
    image_free(&image);
    store = must_open(dir, &options);
    for (int i = 0; i < KEYS; i++)
        ck_assert_ptr_nonnull(get_text(store, numbered("key", i)));
    must_close(store);
}
END_TEST

/* Without room for it, or where it cannot be made, each file has its own sync. */
START_TEST(without_it_each_file_is_synced)
{
    static const enum fault_call calls[] = {FAULT_OPEN, FAULT_ALLOCATE, FAULT_ZERO};
    struct kvstore *store = must_open(dir, &options);
    commit_all(store, 0); /* no file has to grow from here on */
    fault_install(&(struct fault_plan){.call = calls[_i], .nth = 1, .error = ENOSPC});
    for (int round = 1; round < 20; round++)
        commit_all(store, round);
    fault_clear();
    check_all(store, 19);
    must_close(store);
}
END_TEST

/* The same once it cannot be written to: nothing has been promised then. */
START_TEST(without_room_in_it_each_file_is_synced)
{
    struct kvstore *store = must_open(dir, &options);
    int round = commit_until_one_sync(store);
    fault_install(&(struct fault_plan){
        .call = FAULT_WRITE, .nth = 1, .length = (unsigned long)_i, .error = ENOSPC});
    for (int i = 1; i < 20 || !fault_has_fired(); i++)
        commit_all(store, ++round);
    fault_clear();
    commit_all(store, ++round);
    struct image image;
    image_take(&image, dir);
    kvstore_close(store, NULL);
    image_put(&image, dir); /* a kill */
    image_free(&image);
    store = must_open(dir, &options);
    check_all(store, round);
    must_close(store);
}
END_TEST

/* More than the log holds is committed, and all of it found after a kill. */
START_TEST(a_full_log_begins_anew)
{
    int round = 0;
    no_sync_install();
    struct kvstore *store = must_open(dir, &options);
    for (uint64_t bytes = 0; bytes < 3 * COMMIT_LOG_BYTES; round++, bytes += 56u * KEYS)
        commit_all(store, round);
    struct image image;
    image_take(&image, dir);
    kvstore_close(store, NULL);
    no_sync_clear();
    ck_assert_uint_eq(image_find(&image, COMMIT_LOG_NAME)->size, COMMIT_LOG_BYTES);
    image_put(&image, dir);
    image_free(&image);
    store = must_open(dir, &options);
    check_all(store, round - 1);
    must_close(store);
}
END_TEST

/* Of one data file: its length when the last sync of it began. */
static ino_t watched;
static atomic_uint_fast64_t synced_length;
static atomic_bool writes_fail;
static atomic_bool was_told; /* the listener, of that file */

static int note_sync(int fd)
{
    struct stat facts;
    bool is_watched = fstat(fd, &facts) == 0 && facts.st_ino == watched;
    int result = fileio_system.sync_data(fd);
    if (is_watched && result == 0)
        atomic_store(&synced_length, (uint64_t)facts.st_size);
    return result;
}

static ssize_t write_or_fail(int fd, const void *data, size_t size, off_t offset)
{
    if (!atomic_load(&writes_fail))
        return fileio_system.write_at(fd, data, size, offset);
    errno = EIO;
    return -1;
}

static void note_told(void *file, uint32_t number, uint64_t position, enum kv_status status)
{
    (void)position;
    (void)status;
    if (number == *(const uint32_t *)file)
        atomic_store(&was_told, true);
}

static struct stat facts_of_file(uint32_t number)
{
    char path[STORE_DIR_BYTES + 32];
    struct stat facts;
    snprintf(path, sizeof path, "%s/data.%04u", dir, (unsigned)number);
    ck_assert_int_eq(stat(path, &facts), 0);
    return facts;
}

/* Fills the file of "key 0" nearly up, syncs it, and has a write fail for which it was made longer.
 * Then somebody asks for a sync of what is durable already. Returns the length before. */
static uint64_t grow_in_vain(struct kvstore *store, struct kvstore_ticket *ticket)
{
    static char large[1 << 20];
    struct kvstore_position followed;
    struct kvstore_written written;
    struct kv_slice key = kv_slice_from_string("key 0");
    uint64_t length = (uint64_t)facts_of_file(ticket->file).st_size;
    uint64_t room = length - FILE_HEADER_BYTES - ticket->position;
    ck_assert_uint_lt(room, sizeof large);
    /* While somebody follows, no value takes the place of one that was replaced. */
    ck_assert_int_eq(kvstore_changes_now(store, ticket->file, &followed), KV_OK);
    if (room > LOGTAIL_GIVEN_BYTES + 2000) {
        struct kv_slice most = kv_slice(large, room - LOGTAIL_GIVEN_BYTES - 1000);
        ck_assert_int_eq(kvstore_put(store, key, most, NULL, &written), KV_OK);
        *ticket = written.ticket;
    }
    ck_assert_int_eq(kvstore_wait_durable(store, *ticket), KV_OK);
    length = (uint64_t)facts_of_file(ticket->file).st_size;
    atomic_store(&writes_fail, true);
    ck_assert_int_eq(kvstore_put(store, key, kv_slice(large, 256 << 10), NULL, NULL), KV_IO);
    atomic_store(&writes_fail, false);
    ck_assert_int_gt(facts_of_file(ticket->file).st_size, (off_t)length);
    atomic_store(&was_told, false);
    kvstore_request_sync(store, *ticket);
    uint64_t until_ms = clock_monotonic_coarse_ms() + PATIENCE_MS;
    while (!atomic_load(&was_told)) {
        if (clock_monotonic_coarse_ms() >= until_ms)
            ck_abort_msg("the listener is not told");
        sched_yield();
    }
    return length;
}

/* The commit log cannot bring in what lies behind the end that a file has on the disk. */
START_TEST(what_is_durable_lies_within_a_synced_length)
{
    static struct fileio table;
    const struct fileio *before = fileio;
    struct kvstore_ticket tickets[KEYS];
    table = fileio_system;
    table.sync_data = note_sync;
    table.write_at = write_or_fail;
    fileio = &table;
    struct kvstore *store = must_open(dir, &options);
    struct kvstore_ticket ticket = must_put_for_ticket(store, numbered("key", 0), "value");
    uint32_t file = ticket.file;
    watched = facts_of_file(file).st_ino;
    kvstore_set_sync_listener(store, note_told, &file);
    commit_all(store, 0);
    ticket = must_put_for_ticket(store, numbered("key", 0), "value");
    for (int times = 0; times < 6; times++) { /* each time the file grows by more */
        uint64_t length = grow_in_vain(store, &ticket);
        while (FILE_HEADER_BYTES + ticket.position <= length) {
            put_all(store, times, tickets, NULL);
            await_durable(store, tickets);
            for (int i = 0; i < KEYS; i++)
                if (tickets[i].file == file)
                    ticket = tickets[i];
            ck_assert_uint_le(FILE_HEADER_BYTES + ticket.position, atomic_load(&synced_length));
        }
    }
    must_close(store);
    fileio = before;
}
END_TEST

TEST_SUITE(kvstore_commit_log)
{
    TCase *tests = tcase_create("commit_log");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, files_share_a_sync);
    tcase_add_loop_test(tests, what_the_files_lack_is_brought_in, 0, store_io_count());
    tcase_add_test(tests, a_damaged_log_ends_where_it_is_damaged);
    tcase_add_test(tests, hostile_entries_are_ignored);
    tcase_add_test(tests, a_log_of_another_store_is_removed);
    tcase_add_test(tests, only_a_file_is_taken_for_a_log);
    tcase_add_test(tests, a_failed_sync_of_it_is_one_of_the_files);
    tcase_add_loop_test(tests, without_it_each_file_is_synced, 0, 3);
    tcase_add_loop_test(tests, without_room_in_it_each_file_is_synced, 0, 2);
    tcase_add_test(tests, a_full_log_begins_anew);
    tcase_add_test(tests, what_is_durable_lies_within_a_synced_length);
    suite_add_tcase(suite, tests);
}
