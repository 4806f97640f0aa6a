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
#include "tests/unit/suites.h"

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
    ck_assert_uint_eq(total_statistics(store).dead_bytes, 0);
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

Suite *suite_kvstore_compact_failures(void)
{
    Suite *suite = suite_create("kvstore_compact_failures");
    TCase *tests = tcase_create("compact_failures");
    one_file_case_add(tests);
    tcase_add_loop_test(tests, a_failure_leaves_the_file_as_it_was, 0,
                        sizeof failures / sizeof failures[0]);
    tcase_add_test(tests, a_write_that_fails_leaves_the_file_as_it_was);
    tcase_add_test(tests, a_directory_that_can_not_be_synced_stops_the_file);
    tcase_add_test(tests, a_damaged_record_stops_it);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return suite;
}
