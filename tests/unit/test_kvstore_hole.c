/* A gap in a log with intact records behind it: what a power cut may leave, and nothing else. And
 * logs that are holes mostly. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/log.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "tests/support/fault.h"
#include "tests/support/one_file_store.h"
#include "tests/support/other_boot.h"
#include "tests/support/skip.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define BEFORE 10 /* records before the gap */
#define BEHIND 33 /* behind it */

static uint64_t gap_at; /* where one record is gone */
static struct image image;

/* What a copy that was made while records were written may look like, in copy_dir: one record, or
 * only a part of it, is not in it. Nothing of the log was noted as synced. */
static void make_holed_copy(bool zeros)
{
    must_put_numbers(store, 0, BEFORE);
    gap_at = FILE_HEADER_BYTES + total_statistics(store).live_bytes;
    must_put(store, "gone", "with the page that it was in");
    uint64_t gap_end = FILE_HEADER_BYTES + total_statistics(store).live_bytes;
    must_put_numbers(store, BEFORE, BEFORE + BEHIND);
    ck_assert_uint_eq(total_statistics(store).synced_bytes, 0);
    image_take(&image, dir);
    uint8_t *bytes = image_find(&image, "data.0000")->bytes;
    if (zeros)
        memset(bytes + gap_at, 0, gap_end - gap_at);
    else
        bytes[gap_end - 9] ^= 1;
    image_put(&image, copy_dir);
}

static void put_back_and_check_unchanged(void)
{
    struct image after;
    image_take(&after, copy_dir);
    ck_assert_uint_eq(after.count, image.count);
    ck_assert_mem_eq(image_find(&after, "data.0000")->bytes, image_find(&image, "data.0000")->bytes,
                     image_find(&image, "data.0000")->size);
    image_free(&after);
}

/* The error gives that reason. */
static void expect_refusal(enum kvstore_io io, bool read_only, const char *reason)
{
    struct kvstore_options options = {.io = io, .read_only = read_only};
    struct kvstore *none;
    struct kv_error error = {0};
    char offset_text[64];
    snprintf(offset_text, sizeof offset_text, "offset %" PRIu64, gap_at);
    ck_assert_int_eq(kvstore_open(copy_dir, &options, &none, &error), KV_CORRUPT);
    ck_assert_msg(strstr(error.text, "data.0000") && strstr(error.text, offset_text) &&
                      strstr(error.text, " 33 intact records") && strstr(error.text, reason) &&
                      strstr(error.text, "kvcheck --salvage OUT"),
                  "%s", error.text);
    put_back_and_check_unchanged();
}

START_TEST(a_hole_without_a_power_cut_is_damage)
{
    make_holed_copy(_i % 2 == 0);
    expect_refusal(_i / 2 == 0 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD, false,
                   "has not been started again");
    expect_refusal(_i / 2 == 0 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD, true,
                   "has not been started again");
    image_free(&image);
}
END_TEST

/* A file of an older version has no note of its boot: who knows. */
START_TEST(a_hole_of_an_older_version_is_damage)
{
    make_holed_copy(true);
    uint8_t *bytes = image_find(&image, "data.0000")->bytes;
    memset(bytes + fileheader_note_offset(FILE_NOTE_BOOT), 0, FILE_NOTE_PLACE_BYTES);
    image_put(&image, copy_dir);
    expect_refusal(KVSTORE_IO_MMAP, false, "an older version wrote them");
    other_boot_install();
    expect_refusal(KVSTORE_IO_MMAP, false, "an older version wrote them");
    other_boot_clear();
    image_free(&image);
}
END_TEST

/* The header notes a boot, and today's is not told; then it is told again, and the gap is cut. */
START_TEST(a_hole_is_refused_where_the_system_does_not_tell_its_boot)
{
    make_holed_copy(true);
    untold_boot_install();
    expect_refusal(KVSTORE_IO_MMAP, false, "this system does not tell which boot it is");
    expect_refusal(KVSTORE_IO_PREAD, true, "this system does not tell which boot it is");
    other_boot_clear();
    other_boot_install();
    struct kvstore *copy = must_open(copy_dir, NULL);
    check_numbers(copy, 0, BEFORE);
    must_close(copy);
    other_boot_clear();
    image_free(&image);
}
END_TEST

/* The header notes zeros: whatever is told today does not help. */
START_TEST(a_hole_of_a_system_that_did_not_tell_its_boot_is_refused)
{
    static const uint8_t zeros[FILE_NOTE_BYTES];
    make_holed_copy(true);
    uint8_t *bytes = image_find(&image, "data.0000")->bytes;
    struct file_identity identity;
    ck_assert_int_eq(fileheader_read_identity(bytes, &identity), FILEHEADER_VALID);
    fileheader_write_note(bytes, FILE_NOTE_BOOT, identity.salt, zeros);
    image_put(&image, copy_dir);
    if (_i == 1)
        other_boot_install();
    expect_refusal(KVSTORE_IO_MMAP, false, "did not tell which boot it was");
    if (_i == 1)
        other_boot_clear();
    static char output[8192];
    if (have_kvcheck()) {
        ck_assert_int_eq(run_kvcheck(copy_dir, NULL, NULL, output, sizeof output), 1);
        ck_assert_msg(strstr(output, "did not tell which boot it was"), "%s", output);
    }
    image_free(&image);
}
END_TEST

static void check_hole_is_cut_and_kept(const struct kvstore_options *options)
{
    struct kvstore *copy = must_open(copy_dir, options);
    check_numbers(copy, 0, BEFORE);
    ck_assert_uint_eq(total_statistics(copy).keys, BEFORE);
    must_put(copy, "new", "after the cut");
    must_close(copy);
    copy = must_open(copy_dir, options);
    ck_assert_uint_eq(total_statistics(copy).keys, BEFORE + 1);
    must_close(copy);
}

/* After a failed sync the kernel may have forgotten any page that was not on disk. */
START_TEST(a_hole_after_a_failed_sync_is_cut_and_kept)
{
    struct kvstore_options options = {.io = _i == 0 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD};
    struct fault_plan plan = {.call = FAULT_SYNC_DATA, .nth = 1, .length = 1, .error = EIO};
    struct image failed;
    must_reopen(&options);
    make_holed_copy(true);
    fault_install(&plan);
    ck_assert_int_eq(kvstore_sync(store), KV_NOT_DURABLE);
    fault_clear();
    image_take(&failed, dir);
    memcpy(image_find(&image, "data.0000")->bytes, image_find(&failed, "data.0000")->bytes,
           FILE_HEADER_BYTES);
    image_put(&image, copy_dir);
    check_hole_is_cut_and_kept(&options);
    ck_assert_int_eq(kvstore_close(store, NULL), KV_NOT_DURABLE);
    store = NULL;
    image_free(&failed);
    image_free(&image);
}
END_TEST

/* How many records kvcheck --dump finds in the file, as data.0000 of a directory of its own. */
static int dump_count(const char *kept_name)
{
    static char output[64000];
    char out_dir[STORE_DIR_BYTES], from[2 * STORE_DIR_BYTES], to[2 * STORE_DIR_BYTES];
    store_dir_make(out_dir);
    snprintf(from, sizeof from, "%s/%s", copy_dir, kept_name);
    snprintf(to, sizeof to, "%s/data.0000", out_dir);
    ck_assert_int_eq(link(from, to), 0);
    run_kvcheck("--dump", out_dir, NULL, output, sizeof output);
    int count = 0;
    for (const char *at = output; (at = strstr(at, " live put ")) != NULL; at++)
        count++;
    store_dir_remove(out_dir);
    return count;
}

START_TEST(a_hole_after_a_power_cut_is_cut_and_kept)
{
    struct kvstore_options options = {.io = _i == 0 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD};
    make_holed_copy(true);
    other_boot_install();
    if (_i == 2) { /* a note that was cut itself */
        image_find(&image, "data.0000")->bytes[fileheader_note_offset(FILE_NOTE_BOOT)] ^= 1;
        image_put(&image, copy_dir);
        other_boot_clear();
    }
    check_hole_is_cut_and_kept(&options);
    if (_i != 2)
        other_boot_clear();

    char kept_name[64];
    snprintf(kept_name, sizeof kept_name, "data.0000.cut-%" PRIu64, gap_at);
    struct image after;
    image_take(&after, copy_dir);
    ck_assert_ptr_nonnull(image_find(&after, kept_name));
    image_free(&after);
    if (have_kvcheck())
        ck_assert_int_eq(dump_count(kept_name), BEHIND);
    image_free(&image);
}
END_TEST

/* Nothing is behind: a killed process, or a power cut, and nothing is kept. */
START_TEST(a_torn_tail_alone_is_cut_whatever_the_boot)
{
    must_put_numbers(store, 0, BEFORE);
    gap_at = FILE_HEADER_BYTES + total_statistics(store).live_bytes;
    must_put(store, "torn", "in the middle");
    image_take(&image, dir);
    image_find(&image, "data.0000")->bytes[gap_at + RECORD_HEADER_BYTES] ^= 1;
    image_put(&image, copy_dir);
    if (_i == 1)
        other_boot_install();
    struct kvstore *copy = must_open(copy_dir, NULL);
    ck_assert_uint_eq(total_statistics(copy).keys, BEFORE);
    must_close(copy);
    if (_i == 1)
        other_boot_clear();
    struct image after;
    image_take(&after, copy_dir);
    ck_assert_uint_eq(after.count, 2); /* the log and its checkpoint */
    image_free(&after);
    image_free(&image);
}
END_TEST

START_TEST(kvcheck_tells_a_hole_and_salvages_what_is_behind)
{
    static char output[8192];
    char out_dir[STORE_DIR_BYTES], offset_text[2 * STORE_DIR_BYTES];
    if (!have_kvcheck())
        SKIP_TEST("kvcheck is not built");
    make_holed_copy(_i == 0);
    snprintf(offset_text, sizeof offset_text, "damage: %s/data.0000: offset %" PRIu64, copy_dir,
             gap_at);
    ck_assert_int_eq(run_kvcheck(copy_dir, NULL, NULL, output, sizeof output), 1);
    ck_assert_msg(strstr(output, offset_text) && strstr(output, " 33 intact records") &&
                      strstr(output, "kvcheck --salvage OUT") && !strstr(output, "sound\n"),
                  "%s", output);
    store_dir_make(out_dir);
    ck_assert_int_eq(run_kvcheck("--salvage", out_dir, copy_dir, output, sizeof output), 1);
    struct kvstore *salvaged = must_open(out_dir, NULL);
    check_numbers(salvaged, 0, BEFORE + BEHIND);
    must_close(salvaged);
    store_dir_remove(out_dir);
    image_free(&image);
}
END_TEST

/* Holes ---------------------------------------------------------------------------------------- */

static void stretch_copy(off_t size, off_t byte_at)
{
    char path[2 * STORE_DIR_BYTES];
    snprintf(path, sizeof path, "%s/data.0000", copy_dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, size), 0);
    if (byte_at != 0)
        ck_assert_int_eq(pwrite(fd, "x", 1, byte_at), 1);
    close(fd);
}

/* The time limit of the case is what fails where holes are read. */
START_TEST(a_log_of_32_gib_that_is_a_hole_opens_at_once)
{
    struct kvstore_options options = {.io = _i % 2 == 0 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD};
    const off_t size = (off_t)32 << 30;
    off_t byte_at = _i / 2 == 0 ? 0 : size - 5;
    must_put_numbers(store, 0, BEFORE);
    image_take(&image, dir);
    image_put(&image, copy_dir);
    image_free(&image);
    stretch_copy(size, byte_at);
    static char output[8192];
    if (have_kvcheck())
        ck_assert_int_eq(run_kvcheck(copy_dir, NULL, NULL, output, sizeof output), 0);
    struct kvstore *copy = must_open(copy_dir, &options);
    check_numbers(copy, 0, BEFORE);
    must_close(copy);
    char path[2 * STORE_DIR_BYTES];
    struct stat facts;
    snprintf(path, sizeof path, "%s/data.0000", copy_dir);
    ck_assert_int_eq(stat(path, &facts), 0);
    ck_assert_int_lt(facts.st_size, 1 << 20);

    stretch_copy(size, byte_at); /* beside a checkpoint that counts */
    copy = must_open(copy_dir, &options);
    check_numbers(copy, 0, BEFORE);
    ck_assert_int_eq(stat(path, &facts), 0);
    ck_assert_int_lt(facts.st_blocks, (256 << 20) / 512);
    must_close(copy);
}
END_TEST

/* What is there in the place of data.0000: told by what it is, without waiting for anybody. */
START_TEST(what_is_no_regular_file_is_refused_by_its_kind)
{
    static const char *const kinds[] = {"a symbolic link", "not a regular file", "a directory",
                                        "a symbolic link"};
    char path[2 * STORE_DIR_BYTES], output[4096];
    must_put_numbers(store, 0, BEFORE);
    snprintf(path, sizeof path, "%s/data.0000", copy_dir);
    ck_assert_int_eq(_i == 0   ? symlink("data.0001", path)
                     : _i == 1 ? mkfifo(path, 0600)
                     : _i == 2 ? mkdir(path, 0700)
                               : symlink("/dev/zero", path),
                     0);
    for (int read_only = 0; read_only < 2; read_only++) {
        struct kvstore_options options = {.read_only = read_only == 1};
        struct kvstore *none;
        struct kv_error error = {0};
        ck_assert_int_eq(kvstore_open(copy_dir, &options, &none, &error), KV_CORRUPT);
        ck_assert_msg(strstr(error.text, "data.0000") && (strstr(error.text, kinds[_i]) ||
                                                          strstr(error.text, "not a regular file")),
                      "%s", error.text);
    }
    if (have_kvcheck()) {
        ck_assert_int_eq(run_kvcheck(copy_dir, NULL, NULL, output, sizeof output), 4);
        ck_assert_msg(strstr(output, "not a regular file"), "%s", output);
    }
    ck_assert_int_eq(remove(path), 0);
}
END_TEST

TEST_SUITE(kvstore_hole)
{
    TCase *gaps = tcase_create("gaps");
    one_file_case_add(gaps);
    tcase_add_loop_test(gaps, a_hole_without_a_power_cut_is_damage, 0, 4);
    tcase_add_test(gaps, a_hole_of_an_older_version_is_damage);
    tcase_add_test(gaps, a_hole_is_refused_where_the_system_does_not_tell_its_boot);
    tcase_add_loop_test(gaps, a_hole_of_a_system_that_did_not_tell_its_boot_is_refused, 0, 2);
    tcase_add_loop_test(gaps, a_hole_after_a_power_cut_is_cut_and_kept, 0, 3);
    tcase_add_loop_test(gaps, a_hole_after_a_failed_sync_is_cut_and_kept, 0, 2);
    tcase_add_loop_test(gaps, a_torn_tail_alone_is_cut_whatever_the_boot, 0, 2);
    tcase_add_loop_test(gaps, kvcheck_tells_a_hole_and_salvages_what_is_behind, 0, 2);
    suite_add_tcase(suite, gaps);
    TCase *holes = tcase_create("holes");
    one_file_case_add(holes);
    tcase_set_timeout(holes, 15);
    tcase_add_loop_test(holes, a_log_of_32_gib_that_is_a_hole_opens_at_once, 0, 4);
    tcase_add_loop_test(holes, what_is_no_regular_file_is_refused_by_its_kind, 0, 4);
    suite_add_tcase(suite, holes);
}
