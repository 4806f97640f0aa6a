/*
 * The worked example of docs/FORMAT.md, taken from that page: the code must read these bytes as the
 * page says for as long as there is a format version 1, and write the same ones again.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/log.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/record.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define EXAMPLE_BYTES 0x10000u
#define RECORD_AT     0x1000u
#define RECORD_END_AT 0x1020u
#define EXAMPLE_LINES 22u
#define SEED          UINT64_C(0xf757119a81a18c2c)
#define SALT          UINT64_C(0x7b31119f2968db68)
#define CHAPTER       UINT64_C(0x605db75ba10e14a3)
#define VERSION       UINT64_C(1)

static char dir[STORE_DIR_BYTES];
static uint8_t *example;

/* Takes one line of xxd; others are none. */
static unsigned take_dump_line(const char *line)
{
    unsigned long at;
    int used;
    if (sscanf(line, "    %8lx: %n", &at, &used) != 1 || at + 16 > EXAMPLE_BYTES)
        return 0;
    for (unsigned i = 0; i < 16; i++) {
        unsigned byte;
        int more;
        if (sscanf(line + used, "%2x%n", &byte, &more) != 1)
            return 0;
        used += more;
        example[at + i] = (uint8_t)byte;
    }
    return 1;
}

static void set_up(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    example = calloc(1, EXAMPLE_BYTES);
    FILE *page = fopen("docs/FORMAT.md", "r");
    ck_assert_msg(page != NULL, "docs/FORMAT.md: run the tests from the root of the tree");
    unsigned lines = 0;
    bool is_there = false;
    for (char line[256]; fgets(line, sizeof line, page);) {
        is_there = is_there ? line[0] == ' '
                            : strcmp(line, "    $ xxd -a -g 8 -l 0x1030 kv/data.0000\n") == 0;
        lines += is_there ? take_dump_line(line) : 0;
    }
    fclose(page);
    ck_assert_uint_eq(lines, EXAMPLE_LINES);
    store_dir_make(dir);
}

static void tear_down(void)
{
    free(example);
    store_dir_remove(dir);
}

START_TEST(header_says_what_the_page_says)
{
    struct file_identity identity;
    struct file_progress progress;
    ck_assert_int_eq(fileheader_read_identity(example, &identity), FILEHEADER_VALID);
    ck_assert_uint_eq(identity.format_version, 1);
    ck_assert_uint_eq(identity.datafiles, 2);
    ck_assert_uint_eq(identity.number, 0);
    ck_assert_uint_eq(identity.store_seed, SEED);
    ck_assert_uint_eq(identity.salt, SALT);
    ck_assert(fileheader_read_progress(example, SALT, &progress));
    ck_assert_uint_eq(progress.sequence, 2);
    ck_assert_uint_eq(progress.synced_offset, RECORD_END_AT);
    ck_assert_uint_eq(progress.version_floor, VERSION);
}
END_TEST

START_TEST(header_is_written_so)
{
    static uint8_t page[FILE_HEADER_BYTES];
    uint8_t boot[FILE_NOTE_BYTES];
    struct file_identity identity = {1, 2, 0, SEED, SALT, {{0, 0}}};
    ck_assert_int_eq(fileheader_read_note(example, FILE_NOTE_BOOT, SALT, boot),
                     FILEHEADER_NOTE_VALID);
    ck_assert_mem_eq(boot, example + 0x600, sizeof boot);
    fileheader_read_hash_key(example, &identity);
    ck_assert(!hash_key_is_none(&identity.hash_key));
    fileheader_write_identity(page, &identity);
    fileheader_write_progress(page, SALT, &(struct file_progress){1, 0x1000, 0, 0});
    fileheader_write_progress(page, SALT, &(struct file_progress){2, RECORD_END_AT, VERSION, 0});
    fileheader_write_note(page, FILE_NOTE_BOOT, SALT, boot);
    fileheader_write_hash_key(page, &identity);
    struct file_chapters chapters = {.count = 1, .list = {{CHAPTER, RECORD_AT}}};
    file_chapters_write(page, SALT, &chapters);
    ck_assert_mem_eq(page, example, FILE_HEADER_BYTES);
}
END_TEST

/* A power failure, or kill -9, ends the writing of a slot behind any byte. Without the settled
 * transactions recovery would ask for parts that a compaction has left out. */
START_TEST(progress_that_is_torn_has_no_less_settled)
{
    uint8_t before[FILE_HEADER_BYTES] = {0}, after[FILE_HEADER_BYTES];
    const struct file_progress next = {4, 0x3000, 9, 4 * (uint64_t)_i};
    fileheader_write_progress(before, SALT, &(struct file_progress){2, 0x1000, 5, 0});
    fileheader_write_progress(before, SALT, &(struct file_progress){3, 0x2000, 7, 3});
    memcpy(after, before, sizeof after);
    fileheader_write_progress(after, SALT, &next);
    uint32_t at = fileheader_progress_offset(&next);
    for (size_t torn = 0; torn <= FILE_PROGRESS_BYTES; torn++) {
        uint8_t page[FILE_HEADER_BYTES];
        struct file_progress progress;
        memcpy(page, before, sizeof page);
        memcpy(page + at, after + at, torn);
        ck_assert(fileheader_read_progress(page, SALT, &progress));
        ck_assert_msg(progress.sequence == 3 ||
                          (progress.sequence == 4 && progress.synced_offset == 0x3000),
                      "%zu bytes: sequence %" PRIu64, torn, progress.sequence);
        bool is_new = torn == FILE_PROGRESS_BYTES && _i == 1;
        ck_assert_msg(progress.settled == (is_new ? 4 : 3), "%zu bytes: settled %" PRIu64, torn,
                      progress.settled);
    }
}
END_TEST

/* The first transaction of a file writes its format anew: a power failure tears that write behind
 * any byte. (tests/explore: machine, seed 11009152) */
START_TEST(header_torn_between_two_formats_is_read)
{
    uint8_t before[FILE_HEADER_BYTES] = {0}, after[FILE_HEADER_BYTES] = {0};
    struct file_identity identity = {.format_version = FILE_FORMAT_VERSION,
                                     .datafiles = 3,
                                     .number = 2,
                                     .store_seed = 0x1122334455667788,
                                     .salt = 0x99aabbccddeeff00};
    fileheader_write_identity(before, &identity);
    identity.format_version = FILE_FORMAT_NEWEST;
    fileheader_write_identity(after, &identity);
    for (size_t torn = 0; torn <= FILE_IDENTITY_BYTES; torn++) {
        struct file_identity found;
        uint8_t page[FILE_HEADER_BYTES];
        memcpy(page, before, sizeof page);
        memcpy(page, after, torn);
        ck_assert_int_eq(fileheader_read_identity(page, &found), FILEHEADER_VALID);
        ck_assert_uint_eq(found.salt, identity.salt);
        page[FILE_IDENTITY_BYTES - 1] ^= 1;
        ck_assert_int_eq(fileheader_read_identity(page, &found), FILEHEADER_DAMAGED);
    }
}
END_TEST

START_TEST(record_is_written_so)
{
    uint8_t bytes[RECORD_END_AT - RECORD_AT];
    struct record record = {.kind = RECORD_PUT,
                            .version = VERSION,
                            .key = kv_slice_from_string("city"),
                            .value = kv_slice_from_string("Geneva")};
    ck_assert_uint_eq(record_write(bytes, &record, kv_slice(NULL, 0), SALT, RECORD_AT),
                      sizeof bytes);
    ck_assert_mem_eq(bytes, example + RECORD_AT, sizeof bytes);
}
END_TEST

START_TEST(store_of_these_bytes_opens)
{
    static uint8_t other[FILE_HEADER_BYTES];
    fileheader_write_identity(other, &(struct file_identity){1, 2, 1, SEED, SALT + 1, {{0, 0}}});
    fileheader_write_progress(other, SALT + 1, &(struct file_progress){1, 0x1000, 0, 0});
    struct image image = {.count = 2};
    strcpy(image.files[0].name, "data.0000");
    image.files[0].bytes = example;
    image.files[0].size = EXAMPLE_BYTES;
    strcpy(image.files[1].name, "data.0001");
    image.files[1].bytes = other;
    image.files[1].size = sizeof other;
    image_put(&image, dir);

    struct kvstore *store;
    struct kv_error error;
    struct kvstore_entry entry;
    char value[16];
    struct kvstore_options options = {.read_only = true};
    ck_assert_msg(kvstore_open(dir, &options, &store, &error) == KV_OK, "%s", error.text);
    ck_assert_int_eq(kvstore_get(store, kv_slice_from_string("city"), value, sizeof value, &entry),
                     KV_OK);
    ck_assert(kv_slice_equal(kv_slice(value, entry.value_bytes), kv_slice_from_string("Geneva")));
    ck_assert_uint_eq(entry.version, VERSION);
    ck_assert_int_eq(kvstore_close(store, NULL), KV_OK);
}
END_TEST

TEST_SUITE(kvstore_format)
{
    TCase *tests = tcase_create("format");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, header_says_what_the_page_says);
    tcase_add_test(tests, header_is_written_so);
    tcase_add_loop_test(tests, progress_that_is_torn_has_no_less_settled, 0, 2);
    tcase_add_test(tests, header_torn_between_two_formats_is_read);
    tcase_add_test(tests, record_is_written_so);
    tcase_add_test(tests, store_of_these_bytes_opens);
    suite_add_tcase(suite, tests);
}
