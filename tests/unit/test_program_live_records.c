/* live_records: of each key the last record; a file that cannot be read is told, and no signal. */
#include "clientk/program/backup/live_records.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory/mapguard.h"
#include "tests/support/test_suite.h"

#define PAGE        4096u
#define SALT_OFFSET 32u /* docs/FORMAT.md */
#define SALT        UINT64_C(77)

/* A data file that is written record by record. */
static struct source_file file;

static void make_file(void)
{
    char name[] = "/tmp/mqkv-records-XXXXXX";
    uint8_t header[BACKUP_HEADER_BYTES] = {0};
    header[SALT_OFFSET] = (uint8_t)SALT;
    file = (struct source_file){.fd = mkstemp(name), .bytes = sizeof header};
    ck_assert_int_ge(file.fd, 0);
    unlink(name);
    ck_assert_int_eq(pwrite(file.fd, header, sizeof header, 0), sizeof header);
    mapguard_install("test");
}

static void close_file(void)
{
    close(file.fd);
}

static void add(enum record_kind kind, uint64_t version, const char *key, struct kv_slice value)
{
    struct record record = {
        .kind = kind, .version = version, .key = kv_slice_from_string(key), .value = value};
    uint64_t size = record_size(record.key.size, record.value.size, false);
    uint8_t *bytes = calloc(1, size);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(record_write(bytes, &record, kv_slice(NULL, 0), SALT, file.bytes), size);
    ck_assert_int_eq(pwrite(file.fd, bytes, size, (off_t)file.bytes), (ssize_t)size);
    file.bytes += size;
    free(bytes);
}

/* A record that fills a page. */
static void add_page(uint64_t version, const char *key)
{
    static const uint8_t zeros[PAGE];
    add(RECORD_PUT, version, key,
        kv_slice(zeros, PAGE - RECORD_HEADER_BYTES - kv_slice_from_string(key).size));
    ck_assert_uint_eq(file.bytes % PAGE, 0);
}

static struct kv_slice next(struct live_records *records)
{
    struct record record;
    struct kv_error error = {0};
    bool end;
    ck_assert_int_eq(live_records_next(records, &record, &end, "data", &error), KV_OK);
    return end ? kv_slice(NULL, 0) : record.value;
}

START_TEST(of_each_key_the_last_unless_it_is_deleted)
{
    struct live_records records;
    struct kv_error error = {0};
    add(RECORD_PUT, 1, "a", kv_slice_from_string("old"));
    add(RECORD_PUT, 2, "b", kv_slice_from_string("gone"));
    add(RECORD_PUT, 3, "a", kv_slice_from_string("new"));
    add(RECORD_DELETE, 4, "b", kv_slice(NULL, 0));
    add(RECORD_PUT, 5, "c", kv_slice_from_string("only"));
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_OK);
    ck_assert(kv_slice_equal(next(&records), kv_slice_from_string("new")));
    ck_assert(kv_slice_equal(next(&records), kv_slice_from_string("only")));
    ck_assert_ptr_null(next(&records).data);
    live_records_close(&records);
}
END_TEST

START_TEST(a_file_that_ends_too_early_cannot_be_read)
{
    struct live_records records;
    struct kv_error error = {0};
    add_page(1, "a");
    file.bytes += PAGE; /* which are not there */
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_IO);
    ck_assert_str_eq(error.text, "data cannot be read at offset 8192");
}
END_TEST

START_TEST(one_that_is_cut_while_it_is_read_is_told)
{
    struct live_records records;
    struct record record;
    struct kv_error error = {0};
    bool end;
    add_page(1, "a");
    add_page(2, "b");
    add_page(3, "c");
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_OK);
    ck_assert_uint_gt(next(&records).size, 0);
    ck_assert_int_eq(ftruncate(file.fd, 2 * PAGE), 0);
    ck_assert_int_eq(live_records_next(&records, &record, &end, "data", &error), KV_IO);
    live_records_close(&records);
}
END_TEST

START_TEST(one_that_changes_while_it_is_read_is_told)
{
    struct live_records records;
    struct record record;
    struct kv_error error = {0};
    bool end;
    add_page(1, "a");
    add_page(2, "b");
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_OK);
    ck_assert_uint_gt(next(&records).size, 0);
    ck_assert_int_eq(pwrite(file.fd, "x", 1, 2 * PAGE + 100), 1);
    ck_assert_int_eq(live_records_next(&records, &record, &end, "data", &error), KV_CORRUPT);
    live_records_close(&records);
}
END_TEST

TEST_SUITE(program_live_records)
{
    TCase *records = tcase_create("records");
    tcase_add_checked_fixture(records, make_file, close_file);
    tcase_add_test(records, of_each_key_the_last_unless_it_is_deleted);
    tcase_add_test(records, a_file_that_ends_too_early_cannot_be_read);
    tcase_add_test(records, one_that_is_cut_while_it_is_read_is_told);
    tcase_add_test(records, one_that_changes_while_it_is_read_is_told);
    suite_add_tcase(suite, records);
}
