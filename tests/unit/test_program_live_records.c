/* live_records: of each key the last record; a file that cannot be read is told, and no signal. */
#include "tools/backup/live_records.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
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

#define CONTENT_BYTES 64u /* of any content */

/* Takes an extent, and returns where its content belongs. */
static uint64_t add_extent(void)
{
    uint8_t head[RECORD_EXTENT_HEAD_BYTES];
    record_write_extent(head, 1, CONTENT_BYTES, SALT, file.bytes);
    ck_assert_int_eq(pwrite(file.fd, head, sizeof head, (off_t)file.bytes), sizeof head);
    uint64_t content_at = file.bytes + sizeof head;
    file.bytes = content_at + CONTENT_BYTES;
    return content_at;
}

/* Writes a content there, over one that is there, and places it. */
static void place(uint64_t content_at, uint64_t version, const char *key, const char *value,
                  uint64_t expiry_ms)
{
    uint8_t bytes[CONTENT_BYTES] = {0}, place[8];
    struct record placed, content = {.kind = RECORD_PUT,
                                     .version = RECORD_NO_VERSION_YET,
                                     .expiry_ms = expiry_ms,
                                     .key = kv_slice_from_string(key),
                                     .value = kv_slice_from_string(value),
                                     .in_extent = true};
    record_write(bytes, &content, kv_slice(NULL, 0), SALT, content_at);
    content.version = version;
    record_number(&content, SALT, content_at, bytes, bytes + RECORD_VERSION_AT);
    ck_assert_int_eq(pwrite(file.fd, bytes, sizeof bytes, (off_t)content_at), sizeof bytes);
    record_place(&content, content_at, place, &placed);
    uint64_t size = record_write(bytes, &placed, kv_slice(NULL, 0), SALT, file.bytes);
    ck_assert_int_eq(pwrite(file.fd, bytes, size, (off_t)file.bytes), (ssize_t)size);
    file.bytes += size;
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

/* Extents get other contents, of the same key and of others; records of all kinds follow what is
 * superseded. */
START_TEST(a_superseded_pointer_that_another_follows_is_passed_over)
{
    struct live_records records;
    struct kv_error error = {0};
    uint64_t first = add_extent(), second = add_extent(), third = add_extent();
    place(first, 4, "a", "a4", 0);
    place(second, 5, "b", "b5", 0);
    place(third, 6, "c", "c6", 0);
    add(RECORD_PUT, 7, "b", kv_slice_from_string("b7"));
    place(second, 8, "a", "a8", 0);
    place(first, 9, "a", "a9", 0);
    add(RECORD_DELETE, 10, "c", kv_slice(NULL, 0));
    place(third, 11, "d", "d11", 0);
    place(second, 12, "e", "e12", 0);
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_OK);
    static const char *const live[] = {"b7", "a9", "d11", "e12"};
    for (size_t i = 0; i < sizeof live / sizeof *live; i++)
        ck_assert(kv_slice_equal(next(&records), kv_slice_from_string(live[i])));
    ck_assert_ptr_null(next(&records).data);
    live_records_close(&records);
}
END_TEST

/* Else a small backup could have more to restore than any disk. */
START_TEST(a_content_that_is_named_twice_is_damage)
{
    struct live_records records;
    struct kv_error error = {0};
    uint64_t extent = add_extent();
    for (int i = 0; i < 4; i++)
        place(extent, 2, "a", "a value that fills the extent", 0);
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_CORRUPT);
}
END_TEST

/* What none follows is damage, expired or not: only what a record has replaced is overwritten. */
START_TEST(a_superseded_pointer_that_none_follows_is_damage)
{
    struct live_records records;
    struct kv_error error = {0};
    char told[64];
    uint64_t expiry_ms = _i == 1 ? 1 : UINT64_MAX;
    uint64_t extent = add_extent();
    add(RECORD_PUT, 2, "a", kv_slice_from_string("a2"));
    snprintf(told, sizeof told, "data is damaged at offset %" PRIu64 ";", file.bytes);
    place(extent, 3, "a", "a3", expiry_ms);
    place(extent, 4, "b", "b4", 0);
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_CORRUPT);
    ck_assert_msg(strncmp(error.text, told, strlen(told)) == 0, "%s", error.text);
}
END_TEST

START_TEST(a_content_that_changes_while_it_is_read_is_told)
{
    struct live_records records;
    struct record record;
    struct kv_error error = {0};
    bool end;
    uint64_t extent = add_extent();
    place(extent, 2, "a", "a2", 0);
    place(extent, 3, "a", "a3", 0);
    ck_assert_int_eq(live_records_open(&records, &file, "data", &error), KV_OK);
    ck_assert_int_eq(pwrite(file.fd, "x", 1, (off_t)extent + 22), 1);
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
    tcase_add_test(records, a_superseded_pointer_that_another_follows_is_passed_over);
    tcase_add_test(records, a_content_that_is_named_twice_is_damage);
    tcase_add_loop_test(records, a_superseded_pointer_that_none_follows_is_damage, 0, 2);
    tcase_add_test(records, a_content_that_changes_while_it_is_read_is_told);
    suite_add_tcase(suite, records);
}
