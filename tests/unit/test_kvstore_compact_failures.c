/* Compaction that fails: the data file stays as it was, and the next one works. */
#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kvstore/format/fileheader.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/read_buffer.h"
#include "tests/support/fault.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

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
    ck_assert(!has_file("data.0000.new"));
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
        ck_assert(!has_file("data.0000.new"));
        check_large_and_small(store);
    }
    ck_assert_uint_gt(plan.nth, 8);
    ck_assert_uint_le(atomic_load(&largest_write), READ_BUFFER_KEPT_BYTES);
    /* No more than extents take beside their contents. */
    ck_assert_uint_lt(total_statistics(store).dead_bytes, 200);
    struct kvstore *copy = open_copy();
    check_large_and_small(copy);
    must_close(copy);
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

static atomic_int punches;

static int counted_punch(int fd, off_t size)
{
    atomic_fetch_add(&punches, 1);
    return fileio_system.punch(fd, size);
}

/* On disk the name of the data file may still be that of the old log. */
START_TEST(the_old_log_keeps_its_blocks_if_the_directory_can_not_be_synced)
{
    static struct fileio table;
    const struct fault_plan once = {.call = FAULT_SYNC_DIR, .nth = 1, .length = 1, .error = EIO};
    struct kvstore_options options = one_file;
    options.direct = KVSTORE_DIRECT_OWNER;
    for (int fails = 0; fails < 2; fails++) {
        must_reopen(&options);
        put_round(100, 0);
        fault_clear();
        if (fails)
            fault_install(&once);
        const struct fileio *before = fileio;
        table = *fileio;
        table.punch = counted_punch;
        fileio = &table;
        atomic_store(&punches, 0);
        ck_assert_int_eq(kvstore_compact(store, 0, NULL), fails ? KV_IO : KV_OK);
        kvstore_close(store, NULL); /* frees what is to be freed */
        store = NULL;
        fileio = before;
        fault_clear();
        ck_assert_int_eq(atomic_load(&punches), fails ? 0 : 1);
    }
}
END_TEST

/* Records of put_round with two digits in key and round. */
#define RECORD_BYTES 40

static void flip_byte(long offset)
{
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/data.0000", dir);
    FILE *log = fopen(path, "r+");
    ck_assert_ptr_nonnull(log);
    fseek(log, offset, SEEK_SET);
    int was = fgetc(log);
    fseek(log, offset, SEEK_SET);
    fputc(was ^ 0x10, log);
    fclose(log);
}

static struct kvstore_file_statistics file_statistics(void)
{
    struct kvstore_file_statistics file;
    kvstore_file_statistics(store, 0, &file);
    return file;
}

static enum kv_status status_of(const char *key)
{
    char value[64];
    struct kvstore_entry entry;
    return kvstore_get(store, KEY(key), value, sizeof value, &entry);
}

/* All are as they were put, but for one that is damaged. */
static void check_all_but(int damaged)
{
    char value[32];
    for (int i = 0; i < 100; i++) {
        snprintf(value, sizeof value, "value %d/%d", i, i < 50);
        if (i == damaged)
            ck_assert_int_eq(status_of(numbered("key", i)), KV_CORRUPT);
        else
            ck_assert_pstr_eq(get_text(store, numbered("key", i)), value);
    }
}

/* Loop: which byte of the record, of its header, key or value. Twice: what is carried over is
 * carried over again. */
START_TEST(a_damaged_record_in_use_is_carried_over)
{
    put_round(100, 0);
    put_round(50, 1); /* the first ones are dead */
    flip_byte(FILE_HEADER_BYTES + 60 * RECORD_BYTES + _i);
    for (int round = 0; round < 2; round++) {
        must_compact();
        ck_assert_uint_eq(file_statistics().damaged_records, 1);
        ck_assert_uint_eq(file_statistics().keys, 100);
        ck_assert_uint_eq(file_statistics().dead_bytes, 0);
        check_all_but(60);
        must_reopen(NULL);
        ck_assert(file_statistics().from_checkpoint);
        check_all_but(60);
    }
    must_put(store, "key 60", "new");
    ck_assert_uint_eq(file_statistics().damaged_records, 0);
    must_compact();
    ck_assert_uint_eq(file_statistics().compaction_failures, 0);
    ck_assert_uint_eq(file_statistics().keys, 100);
    ck_assert_uint_eq(file_statistics().dead_bytes, 0);
    must_close(open_copy()); /* which reads the log */
}
END_TEST

/* Larger than what is verified when it is met, and than a piece of what is carried over. */
START_TEST(a_large_damaged_record_in_use_is_carried_over)
{
    struct kv_slice value = kv_slice(large_value, LARGE_BYTES);
    memset(large_value, 'x', LARGE_BYTES);
    ck_assert_int_eq(kvstore_put(store, KEY("large"), value, NULL, NULL), KV_OK);
    put_round(100, 0);
    put_round(100, 1);
    flip_byte(FILE_HEADER_BYTES + LARGE_BYTES / 2);
    must_compact();
    ck_assert_uint_eq(file_statistics().damaged_records, 1);
    ck_assert_uint_eq(file_statistics().keys, 101);
    ck_assert_int_eq(status_of("large"), KV_CORRUPT);
    check_round(store, 100, 1);
    ck_assert_int_eq(kvstore_delete(store, KEY("large"), 0, NULL), KV_OK);
    must_compact();
    ck_assert_uint_lt(file_statistics().file_bytes, LARGE_BYTES);
    must_close(open_copy());
}
END_TEST

/* As many places in use as are not carried over any more: the file may not be what the disk has. */
START_TEST(a_file_that_is_damaged_all_over_is_left_as_it_is)
{
    struct kv_error error = {0};
    put_round(100, 0);
    for (long record = 10; record < 28; record += 2)
        flip_byte(FILE_HEADER_BYTES + record * RECORD_BYTES + 30);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_CORRUPT);
    ck_assert_msg(strstr(error.text, "offset 5136"), "%s", error.text);
    ck_assert(!has_file("data.0000.new"));
    ck_assert_uint_eq(file_statistics().keys, 100);
    ck_assert(file_statistics().compaction_failing);
    ck_assert_uint_eq(file_statistics().damaged_records, 1);
    ck_assert_uint_eq(file_statistics().damaged_at, 5136);

    /* Replaced, it stops nothing any more. */
    put_round(100, 1);
    ck_assert(file_statistics().compaction_failing);
    ck_assert_uint_eq(file_statistics().damaged_records, 0);
    must_compact();
    ck_assert(!file_statistics().compaction_failing);
    ck_assert_uint_eq(file_statistics().compaction_failures, 1);
    ck_assert_uint_eq(file_statistics().damaged_at, 0);
    check_round(store, 100, 1);
}
END_TEST

/* More of them than are remembered, met by reads, and left out once they are deleted. */
START_TEST(damaged_records_are_counted_until_they_are_gone)
{
    enum { RECORDS = 20 };
    char value[64];
    struct kvstore_file_statistics file;
    put_round(RECORDS, 0);
    for (long record = 0; record < RECORDS; record++)
        flip_byte(FILE_HEADER_BYTES + record * RECORD_BYTES + 30);
    for (unsigned round = 0; round < 2; round++) {
        for (int key = 0; key < RECORDS; key++) {
            struct kvstore_entry entry;
            ck_assert_int_eq(kvstore_get(store, kv_slice_from_string(numbered("key", key)), value,
                                         sizeof value, &entry),
                             KV_CORRUPT);
            kvstore_file_statistics(store, 0, &file);
            unsigned met = round == 0 ? (unsigned)key + 1 : RECORDS;
            ck_assert_uint_eq(file.damaged_records, met < 8 ? met : 8);
            ck_assert_uint_eq(file.damaged_at, FILE_HEADER_BYTES);
        }
    }
    ck_assert_int_eq(kvstore_delete(store, KEY("key 0"), 0, NULL), KV_OK);
    kvstore_file_statistics(store, 0, &file);
    ck_assert_uint_eq(file.damaged_records, 7);
    ck_assert_uint_eq(file.damaged_at, FILE_HEADER_BYTES + RECORD_BYTES);
    for (int key = 1; key < RECORDS; key++)
        ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string(numbered("key", key)), 0, NULL),
                         KV_OK);
    kvstore_file_statistics(store, 0, &file);
    ck_assert_uint_eq(file.damaged_records, 0);
    must_compact();
}
END_TEST

/* Any byte of a record that nothing points at: of its header, too, which then says another size. */
START_TEST(a_damaged_record_that_is_dead_is_left_out)
{
    static const int dead[] = {0, 40}; /* the first record, and one in the middle */
    for (size_t record = 0; record < sizeof dead / sizeof dead[0]; record++) {
        for (int byte = 0; byte < RECORD_BYTES; byte++) {
            put_round(100, 0);
            put_round(100, 1);
            must_compact(); /* the records have their places */
            put_round(50, 1);
            flip_byte(FILE_HEADER_BYTES + dead[record] * RECORD_BYTES + byte);
            must_compact();
            check_round(store, 100, 1);
            ck_assert_uint_eq(total_statistics(store).keys, 100);
            ck_assert_uint_eq(total_statistics(store).dead_bytes, 0);
        }
    }
    must_close(open_copy());
}
END_TEST

TEST_SUITE(kvstore_compact_failures)
{
    TCase *tests = tcase_create("compact_failures");
    one_file_case_add(tests);
    tcase_add_loop_test(tests, a_failure_leaves_the_file_as_it_was, 0,
                        sizeof failures / sizeof failures[0]);
    tcase_add_test(tests, a_write_that_fails_leaves_the_file_as_it_was);
    tcase_add_test(tests, a_directory_that_can_not_be_synced_stops_the_file);
    tcase_add_test(tests, the_old_log_keeps_its_blocks_if_the_directory_can_not_be_synced);
    tcase_add_loop_test(tests, a_damaged_record_in_use_is_carried_over, 0, RECORD_BYTES);
    tcase_add_test(tests, a_large_damaged_record_in_use_is_carried_over);
    tcase_add_test(tests, a_file_that_is_damaged_all_over_is_left_as_it_is);
    tcase_add_test(tests, damaged_records_are_counted_until_they_are_gone);
    tcase_add_test(tests, a_damaged_record_that_is_dead_is_left_out);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
