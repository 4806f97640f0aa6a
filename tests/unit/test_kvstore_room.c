/* A store whose disk is full, and whose data files are too small to be compacted while it is
 * not. */
#include <check.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "mqkv/kvstore.h"
#include "common/time/clock.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/logtail.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text)   kv_slice_from_string(text)
#define FILES       3
#define VALUE_BYTES 2000

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;

/* What the disk has free, as the engine is told in this program; or how large it is: then files
 * leave the rest. */
static atomic_ulong free_bytes = ULONG_MAX, small_disk_bytes;

static unsigned long left_on_small_disk(void)
{
    char path[STORE_DIR_BYTES + 32];
    unsigned long used = 0, size = atomic_load(&small_disk_bytes);
    glob_t found = {0};
    snprintf(path, sizeof path, "%s/*", dir);
    glob(path, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat facts;
        if (stat(found.gl_pathv[i], &facts) == 0)
            used += (unsigned long)facts.st_blocks * 512;
    }
    globfree(&found);
    return size > used ? size - used : 0;
}

int fstatvfs(int fd, struct statvfs *disk)
{
    (void)fd;
    unsigned long left =
        atomic_load(&small_disk_bytes) > 0 ? left_on_small_disk() : atomic_load(&free_bytes);
    *disk = (struct statvfs){.f_frsize = 1, .f_bavail = left};
    return 0;
}

static int allocate_on_small_disk(int fd, off_t offset, off_t size)
{
    struct stat facts;
    if (fstat(fd, &facts) == 0 &&
        offset + size > facts.st_blocks * 512 + (off_t)left_on_small_disk()) {
        errno = ENOSPC;
        return -1;
    }
    return fileio_system.allocate(fd, offset, size);
}

static void set_up(void)
{
    const struct kvstore_options options = {.create = true, .datafiles = FILES};
    store_dir_make(dir);
    store = must_open(dir, &options);
}

static void tear_down(void)
{
    if (store)
        kvstore_close(store, NULL);
    fault_clear(); /* now that no thread of the store could be in the middle of a call */
    store_dir_remove(dir);
}

/* The key of that number in the file. */
static void name_key(char key[32], uint32_t file, int number)
{
    int at = 0;
    for (int found = -1; found < number;) {
        snprintf(key, 32, "key %d", at++);
        found += kvstore_file_of(store, KEY(key)) == file;
    }
}

static enum kv_status put(const char *key, uint8_t fill)
{
    char value[VALUE_BYTES];
    memset(value, fill, sizeof value);
    return kvstore_put(store, KEY(key), kv_slice(value, sizeof value), NULL, NULL);
}

/* Rounds of puts of one key of each file. */
static void overwrite(int rounds)
{
    char key[32];
    for (int round = 0; round < rounds; round++) {
        for (uint32_t file = 0; file < FILES; file++) {
            name_key(key, file, 0);
            ck_assert_int_eq(put(key, (uint8_t)round), KV_OK);
        }
    }
}

/* Puts new values of key 1 of file 0 until one finds no room. */
static void fill_up(void)
{
    char key[32];
    name_key(key, 0, 1);
    enum kv_status status = KV_OK;
    for (int i = 0; i < 200 && status == KV_OK; i++)
        status = put(key, 0);
    ck_assert_int_eq(status, KV_NO_SPACE);
}

static uint64_t wanted_compactions = 1;

static bool all_compacted(void *unused)
{
    (void)unused;
    for (uint32_t file = 0; file < FILES; file++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(store, file, &statistics);
        if (statistics.compactions < wanted_compactions)
            return false;
    }
    return true;
}

START_TEST(small_files_are_compacted_when_a_write_finds_no_room)
{
    /* The growth of a file and the second try for less; what compaction makes then succeeds. */
    const struct fault_plan plan = {.call = FAULT_ALLOCATE, .nth = 1, .length = 2, .error = ENOSPC};
    char key[32];
    overwrite(10);
    ck_assert_uint_eq(total_statistics(store).compactions, 0);
    fault_install(&plan);
    fill_up();
    ck_assert(wait_until(all_compacted, NULL));
    ck_assert_uint_lt(total_statistics(store).dead_bytes, 2 * VALUE_BYTES);
    name_key(key, 0, 1);
    ck_assert_int_eq(put(key, 7), KV_OK);
    must_close(store);
    store = must_open(dir, NULL);
    ck_assert_uint_eq(total_statistics(store).keys, FILES + 1);
}
END_TEST

/* Within the second in which files are not looked at again: nothing else wakes the compactor
 * then. */
START_TEST(a_write_that_finds_no_room_soon_after_another_is_heard_too)
{
    const struct fault_plan plan = {.call = FAULT_ALLOCATE, .nth = 1, .length = 2, .error = ENOSPC};
    for (wanted_compactions = 1; wanted_compactions <= 2; wanted_compactions++) {
        overwrite(10);
        fault_install(&plan);
        fill_up();
        ck_assert(wait_until(all_compacted, NULL));
    }
}
END_TEST

/* A compaction needs it. */
START_TEST(writes_leave_some_of_the_disk_free)
{
    char key[32];
    overwrite(10);
    atomic_store(&free_bytes, LOGTAIL_SPARE_BYTES);
    fill_up();
    ck_assert(wait_until(all_compacted, NULL));
    name_key(key, 0, 1);
    ck_assert_int_eq(put(key, 7), KV_OK);
}
END_TEST

START_TEST(a_new_generation_takes_the_last_blocks_of_the_disk)
{
    const struct fault_plan plan = {.call = FAULT_ALLOCATE, .nth = 1, .length = 1, .error = ENOSPC};
    overwrite(10);
    struct kv_error error = {0};
    fault_install(&plan);
    ck_assert_msg(kvstore_compact(store, 1, &error) == KV_OK, "%s", error.text);
    struct kvstore_file_statistics statistics;
    kvstore_file_statistics(store, 1, &statistics);
    ck_assert_uint_eq(statistics.file_bytes, 2 * 4096);
    overwrite(10);
}
END_TEST

/* With a full disk from the start: until the file's own room is used up, to the last bytes. */
START_TEST(each_key_can_be_deleted_when_nothing_can_be_written)
{
    char key[32];
    int keys = 0;
    fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC});
    for (enum kv_status status = KV_OK; status == KV_OK; keys += status == KV_OK) {
        snprintf(key, sizeof key, "%d", keys);
        status = kvstore_put(store, KEY(key), KEY("value"), NULL, NULL);
        ck_assert(status == KV_OK || status == KV_NO_SPACE);
    }
    ck_assert_int_gt(keys, 100);
    for (int i = 0; i < keys; i++) { /* takes the rest, where there is any */
        snprintf(key, sizeof key, "%d", i);
        kvstore_put(store, KEY(key), KEY("other"), NULL, NULL);
    }
    for (int i = 0; i < keys; i++) {
        snprintf(key, sizeof key, "%d", i);
        ck_assert_int_eq(kvstore_delete(store, KEY(key), 0, NULL), KV_OK);
    }
}
END_TEST

/* A store that was not closed, and had no room for deletions when it was opened. */
START_TEST(a_deletion_may_take_what_writes_leave_free)
{
    struct image image;
    char key[32];
    overwrite(3);
    image_take(&image, dir);
    must_close(store);
    image_put(&image, dir);
    image_free(&image);
    fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC});
    store = must_open(dir, NULL);
    fault_clear();
    atomic_store(&free_bytes, 4096);
    name_key(key, 0, 0);
    ck_assert_int_eq(put(key, 1), KV_NO_SPACE);
    ck_assert_int_eq(kvstore_delete(store, KEY(key), 0, NULL), KV_OK);
}
END_TEST

START_TEST(files_that_are_alive_are_left_alone)
{
    const struct fault_plan plan = {.call = FAULT_ALLOCATE, .nth = 1, .length = 0, .error = ENOSPC};
    char key[32];
    overwrite(1);
    fault_install(&plan);
    enum kv_status status = KV_OK;
    for (int i = 1; status == KV_OK; i++) {
        name_key(key, 0, i);
        status = put(key, 0);
    }
    ck_assert_int_eq(status, KV_NO_SPACE);
    /* The compactor looks at all files before it does what was asked for meanwhile. */
    ck_assert_int_eq(kvstore_compact(store, 1, NULL), KV_NO_SPACE);
    struct kvstore_file_statistics total = total_statistics(store);
    ck_assert_uint_eq(total.compactions, 0);
    ck_assert_uint_eq(total.compaction_failures, 1);
}
END_TEST

#define LITTLE_BYTES (UINT64_C(1) << 20)

static void *map_little(size_t size, int protection, int fd)
{
    if (size <= LITTLE_BYTES)
        return fileio_system.map(size, protection, fd);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* It cannot have more address space; the disk has room. */
START_TEST(a_file_at_its_limit_takes_no_past_logs_away)
{
    static struct fileio table;
    const struct fileio *before = fileio;
    const struct kvstore_options options = {.compact_dead_percent = 100,
                                            .keep_changes_ms = 3600000};
    char key[32];
    must_close(store);
    table = fileio_system;
    table.map = map_little;
    fileio = &table;
    store = must_open(dir, &options);
    name_key(key, 1, 0);
    ck_assert_int_eq(put(key, 1), KV_OK);
    ck_assert_int_eq(kvstore_compact(store, 1, NULL), KV_OK);
    ck_assert_uint_eq(total_statistics(store).past_logs, 1);
    enum kv_status status = KV_OK;
    for (int i = 0; status == KV_OK; i++) {
        name_key(key, 0, i);
        status = put(key, 0);
    }
    ck_assert_int_eq(status, KV_NO_SPACE);
    /* The compactor removes what is to go before it does what was asked for. */
    ck_assert_int_eq(kvstore_compact(store, 2, NULL), KV_OK);
    ck_assert_uint_eq(total_statistics(store).past_logs, 2);
    must_close(store);
    store = NULL;
    fileio = before;
}
END_TEST

/* A log whose place was taken in a directory that could not be synced may still have that place on
 * disk. */
START_TEST(a_past_log_may_be_the_data_file_still)
{
    const struct kvstore_options options = {.compact_dead_percent = 100,
                                            .keep_changes_ms = 3600000};
    char key[32], path[STORE_DIR_BYTES + 32];
    for (int fails = 0; fails < 2; fails++) {
        must_close(store);
        store = must_open(dir, &options);
        name_key(key, 1, 0);
        ck_assert_int_eq(put(key, 1), KV_OK);
        fault_install(&(struct fault_plan){
            .call = FAULT_SYNC_DIR, .nth = fails ? 1 : 0, .length = 1, .error = EIO});
        ck_assert_int_eq(kvstore_compact(store, 1, NULL), fails ? KV_IO : KV_OK);
        fault_clear();
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(store, 1, &statistics);
        ck_assert_uint_eq(statistics.past_logs, 1);
        snprintf(path, sizeof path, "%s/data.0001.past-*", dir);
        atomic_store(&free_bytes, LOGTAIL_SPARE_BYTES);
        fill_up();
        atomic_store(&free_bytes, ULONG_MAX);
        /* The compactor removes what is to go before it does what was asked for. */
        ck_assert_int_eq(kvstore_compact(store, 2, NULL), KV_OK);
        glob_t found = {0};
        glob(path, 0, NULL, &found);
        ck_assert_uint_eq(found.gl_pathc, (unsigned)fails);
        globfree(&found);
    }
}
END_TEST

#define SMALL_DISK_BYTES (UINT64_C(6) << 20)

/* Overwrites so many keys, some of them more often, with values of 1 to 3 KB. */
static void must_put_much(int puts)
{
    static char value[3000];
    char key[32];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < puts; i++) {
        snprintf(key, sizeof key, "key %d", (int)((unsigned)i * 2654435761u % 5000));
        enum kv_status status =
            kvstore_put(store, KEY(key), kv_slice(value, 1000 + (size_t)i % 2000), NULL, NULL);
        ck_assert_msg(status == KV_OK, "put %d: %s", i, kv_status_name(status));
        ck_assert_int_eq(get_entry(store, key, &(struct kvstore_entry){0}), KV_OK);
    }
}

/* So slow that much is written while a compaction ends. */
static int sync_slowly(int fd)
{
    clock_sleep_ms(30);
    return fileio_system.sync_data(fd);
}

/* Rows: several data files, one; the same with replaced logs that readers may have mapped; all of
 * them on a disk that takes its time. */
START_TEST(a_cache_on_a_small_disk_evicts_and_compacts)
{
    static struct fileio table;
    const struct fileio *before = fileio;
    const struct kvstore_options options = {.create = true,
                                            .datafiles = _i % 2 ? 1 : FILES,
                                            .max_bytes = SMALL_DISK_BYTES,
                                            .evict = KVSTORE_EVICT_S3FIFO,
                                            .direct = _i % 4 < 2 ? KVSTORE_DIRECT_OFF
                                                                 : KVSTORE_DIRECT_OWNER};
    must_close(store);
    store_dir_remove(dir);
    store_dir_make(dir);
    table = fileio_system;
    table.allocate = allocate_on_small_disk;
    if (_i >= 4)
        table.sync_data = sync_slowly;
    fileio = &table;
    atomic_store(&small_disk_bytes, SMALL_DISK_BYTES);
    store = must_open(dir, &options);
    must_put_much(10000);
    struct kvstore_bound_statistics bound;
    kvstore_bound_statistics(store, &bound);
    ck_assert_uint_gt(bound.evictions, 0);
    ck_assert_uint_lt(bound.fitting_bytes, SMALL_DISK_BYTES);
    ck_assert_uint_le(bound.live_bytes, SMALL_DISK_BYTES / 2);
    ck_assert_uint_gt(bound.live_bytes, SMALL_DISK_BYTES / 10);
    ck_assert_uint_eq(total_statistics(store).compaction_failures, 0);
    must_close(store);
    /* Others have filled it. */
    atomic_store(&small_disk_bytes, SMALL_DISK_BYTES - left_on_small_disk());
    store = must_open(dir, &options);
    must_put_much(5000);
    must_close(store);
    store = NULL;
    atomic_store(&small_disk_bytes, 0);
    fileio = before;
}
END_TEST

/* It has nothing to evict, and the others leave no room for a copy as they are. */
START_TEST(an_empty_file_gets_its_room_from_others)
{
    static struct fileio table;
    const struct fileio *before = fileio;
    const struct kvstore_options options = {.create = true,
                                            .datafiles = FILES,
                                            .max_bytes = SMALL_DISK_BYTES,
                                            .evict = KVSTORE_EVICT_S3FIFO,
                                            .compact_dead_percent = 100};
    char key[32];
    must_close(store);
    store_dir_remove(dir);
    store_dir_make(dir);
    table = fileio_system;
    table.allocate = allocate_on_small_disk;
    fileio = &table;
    atomic_store(&small_disk_bytes, SMALL_DISK_BYTES);
    store = must_open(dir, &options);
    for (int number = 0; number < 2 * 300; number++) {
        name_key(key, number % 2 ? 2 : 0, number / 2 % 150);
        ck_assert_int_eq(put(key, 1), KV_OK);
    }
    const unsigned long used = SMALL_DISK_BYTES - left_on_small_disk();
    atomic_store(&small_disk_bytes, used + (8 << 10));
    ck_assert_int_eq(kvstore_compact(store, 1, NULL), KV_OK); /* its log has no room ahead then */
    atomic_store(&small_disk_bytes, used + (200 << 10));
    name_key(key, 1, 0);
    ck_assert_int_eq(put(key, 1), KV_OK);
    ck_assert_uint_gt(total_statistics(store).keys, 150);
    must_close(store);
    store = NULL;
    atomic_store(&small_disk_bytes, 0);
    fileio = before;
}
END_TEST

TEST_SUITE(kvstore_room)
{
    TCase *tcase = tcase_create("room");
    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, small_files_are_compacted_when_a_write_finds_no_room);
    tcase_add_test(tcase, a_write_that_finds_no_room_soon_after_another_is_heard_too);
    tcase_add_test(tcase, writes_leave_some_of_the_disk_free);
    tcase_add_test(tcase, a_new_generation_takes_the_last_blocks_of_the_disk);
    tcase_add_test(tcase, each_key_can_be_deleted_when_nothing_can_be_written);
    tcase_add_test(tcase, a_deletion_may_take_what_writes_leave_free);
    tcase_add_test(tcase, files_that_are_alive_are_left_alone);
    tcase_add_test(tcase, a_file_at_its_limit_takes_no_past_logs_away);
    tcase_add_test(tcase, a_past_log_may_be_the_data_file_still);
    tcase_add_test(tcase, an_empty_file_gets_its_room_from_others);
    tcase_add_loop_test(tcase, a_cache_on_a_small_disk_evicts_and_compacts, 0, 8);
    suite_add_tcase(suite, tcase);
}
