/* A store that reads past the page cache: what only such reads can do wrong. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/report/log.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "tests/support/fault.h"
#include "tests/support/skip.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

static char dir[STORE_DIR_BYTES];
static char buffer[5000];
static struct kvstore_options options = {
    .create = true, .datafiles = 1, .compact_dead_percent = 100, .io = KVSTORE_IO_DIRECT};

static void set_up(void)
{
    log_set_level(LOG_LEVEL_ERROR - 1);
    store_dir_make(dir);
}

static void tear_down(void)
{
    fault_clear();
    store_dir_remove(dir);
}

/* Opens the store with EINVAL from the first such call, from the second, ... until all succeed.
 * Returns how often that was KV_UNSUPPORTED. */
static unsigned refusals(enum fault_call call)
{
    unsigned refused = 0;
    bool fired = true;
    for (unsigned long nth = 1; fired; nth++) {
        struct kvstore *store;
        fault_install(&(struct fault_plan){.call = call, .nth = nth, .length = 1, .error = EINVAL});
        enum kv_status status = kvstore_open(dir, &options, &store, NULL);
        fired = fault_has_fired();
        fault_clear();
        refused += status == KV_UNSUPPORTED;
        if (status == KV_OK)
            must_close(store);
    }
    return refused;
}

START_TEST(a_file_system_without_such_reads_is_refused)
{
    struct kvstore *store = must_open(dir, &options);
    must_put(store, "key", "41");
    must_close(store);
    ck_assert_uint_eq(refusals(FAULT_OPEN), 1); /* the one with O_DIRECT */
    ck_assert_uint_eq(refusals(FAULT_READ), 1); /* or the first read through it */
    store = must_open(dir, &options);
    ck_assert_str_eq(get_text(store, "key"), "41");
    must_close(store);
}
END_TEST

static unsigned long long bytes_from_disk(void)
{
    unsigned long long bytes = 0;
    char line[128];
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "read_bytes: %llu", &bytes) == 1)
            break;
    if (file)
        fclose(file);
    return bytes;
}

START_TEST(each_get_reads_the_disk)
{
    struct kvstore *store = must_open(dir, &options);
    must_put(store, "key", "41");
    unsigned long long before = bytes_from_disk();
    for (int i = 0; i < 10; i++)
        ck_assert_str_eq(get_text(store, "key"), "41");
    unsigned long long after = bytes_from_disk();
    must_close(store);
    if (store_lies_in_memory(dir))
        SKIP_TEST("the directory of the tests lies in memory");
    if (before == 0 && after == 0)
        SKIP_TEST("the system does not tell what was read from the disk");
    ck_assert_uint_ge(after - before, 10 * 4096ULL);
}
END_TEST

/* Pages that hold the end of the log are read while they are written. */
START_TEST(what_was_written_is_read_at_once)
{
    struct kvstore *store = must_open(dir, &options);
    char text[128];
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "%0*d", 1 + i % 100, i);
        must_put(store, numbered("key", i % 7), text);
        ck_assert_str_eq(get_text(store, numbered("key", i % 7)), text);
    }
    must_close(store);
}
END_TEST

/* The last page of the file is not a whole one. */
START_TEST(a_file_may_end_within_a_page)
{
    struct kvstore *store = must_open(dir, &options);
    struct kvstore_written written;
    ck_assert_int_eq(
        kvstore_put(store, kv_slice_from_string("key"), kv_slice(buffer, 5000), NULL, &written),
        KV_OK);
    must_close(store);
    store_checkpoint_remove(dir);
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/data.0000", dir);
    uint64_t end = FILE_HEADER_BYTES + written.ticket.position;
    ck_assert_uint_ne(end % 4096, 0);
    ck_assert_int_eq(truncate(path, (off_t)end), 0);
    options.read_only = true;
    options.create = false;
    store = must_open(dir, &options);
    struct kvstore_entry entry;
    ck_assert_int_eq(kvstore_get(store, kv_slice_from_string("key"), buffer, sizeof buffer, &entry),
                     KV_OK);
    ck_assert_uint_eq(entry.value_bytes, 5000);
    must_close(store);
}
END_TEST

START_TEST(no_reads_past_the_page_cache)
{
    SKIP_TEST("the file system of the tests has no reads past the page cache");
}
END_TEST

TEST_SUITE(kvstore_direct_io)
{
    TCase *tests = tcase_create("past the page cache");
    if (store_io_count() == KVSTORE_IO_COUNT) {
        tcase_add_checked_fixture(tests, set_up, tear_down);
        tcase_add_test(tests, a_file_system_without_such_reads_is_refused);
        tcase_add_test(tests, each_get_reads_the_disk);
        tcase_add_test(tests, what_was_written_is_read_at_once);
        tcase_add_test(tests, a_file_may_end_within_a_page);
    } else {
        tcase_add_test(tests, no_reads_past_the_page_cache);
    }
    suite_add_tcase(suite, tests);
}
