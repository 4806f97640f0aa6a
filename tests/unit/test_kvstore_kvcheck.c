/*
 * kvcheck: it finds what is damaged, says so, and saves what the damage did not touch.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/record.h"
#include "tests/support/known_store.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

static char dir[STORE_DIR_BYTES];
static char out[STORE_DIR_BYTES];
static struct image image;
static struct content content;

static void set_up(void)
{
    known_begin(dir, &image, &content);
    store_dir_make(out);
}

static void tear_down(void)
{
    known_end(dir, &image);
    store_dir_remove(out);
}

/* Opens what was salvaged to out: just what `expected` says, versions included. */
static void assert_salvaged(const struct content *expected, const char *context)
{
    struct kvstore *store;
    struct kv_error error;
    ck_assert_msg(known_store_open(out, &store, &error) == KV_OK, "%s: %s", context, error.text);
    ck_assert_msg(assert_right_or_corrupt(store, expected, context) == 0, "%s: corrupt", context);
    assert_scan_is_right(store, expected, context);
    for (size_t i = 0; i < expected->count; i++) {
        struct kvstore_entry facts;
        if (expected->entries[i].present &&
            kvstore_get(store, kv_slice_from_string(expected->entries[i].key), NULL, 0, &facts) ==
                KV_OK)
            ck_assert_uint_eq(facts.version, expected->entries[i].version);
    }
    kvstore_close(store, NULL);
}

static void assert_salvage_saves_the_rest(const struct content *expected, const char *context)
{
    char output[8192];
    store_dir_remove(out);
    int status = run_kvcheck("--salvage", out, dir, output, sizeof output);
    ck_assert_msg(status == 1, "%s: kvcheck --salvage: %d: %s", context, status, output);
    assert_salvaged(expected, context);
}

START_TEST(kvcheck_finds_a_sound_store_sound)
{
    char output[8192];
    known_store_make(dir, _i == 0, &image, &content);
    image_put(&image, dir);
    ck_assert_msg(run_kvcheck(dir, NULL, NULL, output, sizeof output) == 0, "%s", output);
    ck_assert_ptr_nonnull(strstr(output, "data.0001"));
    ck_assert_msg(strstr(output, _i == 0 ? " ok " : " none ") != NULL, "%s", output);
    struct image after;
    image_take(&after, dir);
    ck_assert_uint_eq(after.count, image.count);
    for (size_t i = 0; i < image.count; i++) {
        const struct image_file *file = image_find(&after, image.files[i].name);
        ck_assert(file && file->size == image.files[i].size);
        ck_assert_mem_eq(file->bytes, image.files[i].bytes, file->size);
    }
    image_free(&after);
}
END_TEST

/* Every third byte of the records of one file, both the checkpoint there and not. */
START_TEST(kvcheck_tells_and_salvages_every_flip_in_a_record)
{
    known_store_make(dir, _i == 0, &image, &content);
    struct image_file *file = image_find(&image, "data.0001");
    struct random_state random;
    random_seed(&random, 12);
    for (size_t at = FILE_HEADER_BYTES; file->bytes[at + 18] != 0 || at % 8 != 0; at += 3) {
        char output[8192];
        char context[96];
        uint8_t bits = (uint8_t)(1u << random_below(&random, 8));
        snprintf(context, sizeof context, "byte %zu ^ %#x", at, bits);
        struct content left;
        content_without(&image, file, at, at + 1, &left);
        file->bytes[at] ^= bits;
        image_put(&image, dir);
        file->bytes[at] ^= bits;
        int status = run_kvcheck(dir, NULL, NULL, output, sizeof output);
        ck_assert_msg(status == 1, "%s: kvcheck: %d: %s", context, status, output);
        ck_assert_msg(strstr(output, "data.0001: offset") && strstr(output, "--salvage"), "%s: %s",
                      context, output);
        assert_salvage_saves_the_rest(&left, context);
    }
}
END_TEST

/* A header with one byte damaged loses nothing. */
START_TEST(kvcheck_salvages_a_damaged_header)
{
    known_store_make(dir, false, &image, &content);
    struct image_file *file = image_find(&image, "data.0000");
    for (size_t at = 0; at < 48; at++) {
        char output[8192];
        char context[96];
        snprintf(context, sizeof context, "header byte %zu", at);
        file->bytes[at] ^= 0x40;
        image_put(&image, dir);
        file->bytes[at] ^= 0x40;
        ck_assert_int_eq(run_kvcheck(dir, NULL, NULL, output, sizeof output), 1);
        assert_salvage_saves_the_rest(&content, context);
    }
}
END_TEST

/* The first 4 KiB overwritten: the checkpoint still knows the salt. */
START_TEST(kvcheck_salvages_without_a_header_by_the_checkpoint)
{
    known_store_make(dir, true, &image, &content);
    struct image_file *file = image_find(&image, "data.0001");
    memset(file->bytes, 0x5A, FILE_HEADER_BYTES);
    image_put(&image, dir);
    assert_salvage_saves_the_rest(&content, "no header");
}
END_TEST

START_TEST(kvcheck_salvages_what_is_left_without_a_file)
{
    known_store_make(dir, true, &image, &content);
    struct image_file *file = image_find(&image, _i == 0 ? "data.0000" : "data.0001");
    struct content left;
    content_without(&image, file, 0, file->size, &left);
    image_put(&image, dir);
    char path[STORE_DIR_BYTES + IMAGE_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", dir, file->name);
    ck_assert_int_eq(remove(path), 0);
    assert_salvage_saves_the_rest(&left, file->name);
}
END_TEST

/* Another file of the store, as it was some time ago, under the name of one: its older records must
 * not take the place of newer ones, whichever file comes last. */
START_TEST(kvcheck_salvage_keeps_the_newer_of_two_files)
{
    known_store_make(dir, false, &image, &content);
    struct image_file *old = image_find(&image, _i == 0 ? "data.0000" : "data.0001");
    struct image_file *overwritten = image_find(&image, _i == 0 ? "data.0001" : "data.0000");
    struct content left;
    image_put(&image, dir);
    struct kvstore *store;
    struct kv_error error;
    ck_assert_int_eq(known_store_open(dir, &store, &error), KV_OK);
    for (size_t i = 0; i < content.count; i++)
        if (content.entries[i].present)
            known_put(store, &content, content.entries[i].key, "newer");
    ck_assert_int_eq(kvstore_close(store, NULL), KV_OK);
    struct image newer;
    image_take(&newer, dir);
    struct image_file *replaced = image_find(&newer, overwritten->name);
    content_without(&newer, replaced, 0, replaced->size, &left);
    free(replaced->bytes);
    replaced->bytes = malloc(old->size);
    replaced->size = old->size;
    memcpy(replaced->bytes, old->bytes, old->size);
    image_put(&newer, dir);
    image_free(&newer);
    assert_salvage_saves_the_rest(&left, old->name);
}
END_TEST

/* Valid, but forged: nothing can follow such a version, so that the engine would refuse the new
 * store, too. */
START_TEST(kvcheck_salvages_impossible_versions)
{
    char output[8192];
    known_store_make(dir, _i == 0, &image, &content);
    struct image_file *file = image_find(&image, "data.0000");
    struct file_identity identity;
    struct file_progress progress;
    struct record record;
    uint64_t size_bytes;
    ck_assert_int_eq(fileheader_read_identity(file->bytes, &identity), FILEHEADER_VALID);
    ck_assert(fileheader_read_progress(file->bytes, identity.salt, &progress));
    if (_i == 0) {
        progress.sequence++;
        progress.version_floor = RECORD_VERSION_LIMIT - 1;
        fileheader_write_progress(file->bytes, identity.salt, &progress);
    } else {
        ck_assert_int_eq(record_read(file->bytes + FILE_HEADER_BYTES, file->size, identity.salt,
                                     FILE_HEADER_BYTES, &record, &size_bytes),
                         RECORD_VALID);
        struct known_entry *entry = content_entry(&content, record.key);
        record.version = RECORD_VERSION_LIMIT - 1;
        uint8_t copy[1024];
        record_write(copy, &record, kv_slice(NULL, 0), identity.salt, FILE_HEADER_BYTES);
        entry->present = true;
        entry->version = 1;
        memset(entry->value, 0, sizeof entry->value);
        memcpy(entry->value, record.value.data, record.value.size);
        memcpy(file->bytes + FILE_HEADER_BYTES, copy, size_bytes);
    }
    image_put(&image, dir);
    struct kvstore *store;
    struct kv_error error;
    ck_assert_int_eq(known_store_open(dir, &store, &error), KV_CORRUPT);
    int status = run_kvcheck(dir, NULL, NULL, output, sizeof output);
    ck_assert_msg(status == 1 && strstr(output, "impossible version"), "%d: %s", status, output);
    assert_salvage_saves_the_rest(&content, "impossible version");
}
END_TEST

START_TEST(kvcheck_refuses_a_store_in_use)
{
    char output[1024];
    struct kvstore *store;
    struct kv_error error;
    ck_assert_int_eq(known_store_open(dir, &store, &error), KV_OK);
    ck_assert_int_eq(run_kvcheck(dir, NULL, NULL, output, sizeof output), 4);
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    ck_assert_msg(strstr(output, pid) != NULL, "no pid: %s", output);
    kvstore_close(store, NULL);
}
END_TEST

START_TEST(kvcheck_exit_status_tells_usage_from_failure)
{
    char output[4096];
    known_store_make(dir, true, &image, &content);
    ck_assert_int_eq(run_kvcheck("-V", NULL, NULL, output, sizeof output), 0);
    ck_assert_int_eq(run_kvcheck("--help", NULL, NULL, output, sizeof output), 0);
    ck_assert_int_eq(run_kvcheck(NULL, NULL, NULL, output, sizeof output), 2);
    ck_assert_int_eq(run_kvcheck("--no-such-option", dir, NULL, output, sizeof output), 2);
    ck_assert_int_eq(run_kvcheck("--format=json", dir, NULL, output, sizeof output), 2);
    ck_assert_int_eq(run_kvcheck("/no/such/directory", NULL, NULL, output, sizeof output), 4);
    ck_assert_int_eq(run_kvcheck(out, NULL, NULL, output, sizeof output), 4);
    ck_assert_ptr_nonnull(strstr(output, "no store"));
    ck_assert_int_eq(run_kvcheck("--salvage", dir, dir, output, sizeof output), 2);
    ck_assert_ptr_nonnull(strstr(output, "not empty"));
    ck_assert_int_eq(run_kvcheck("--salvage", out, dir, output, sizeof output), 0);
    assert_salvaged(&content, "sound store");
}
END_TEST

START_TEST(kvcheck_dump_prints_every_record)
{
    char output[16384];
    known_store_make(dir, true, &image, &content);
    image_put(&image, dir);
    ck_assert_int_eq(run_kvcheck("--dump", dir, NULL, output, sizeof output), 0);
    ck_assert_ptr_nonnull(strstr(output, "key-3 \"second value of key 3\""));
    unsigned lines = 0;
    for (const char *at = output; (at = strchr(at, '\n')); at++)
        lines++;
    ck_assert_uint_eq(lines, KNOWN_RECORDS);
    ck_assert_int_eq(run_kvcheck("--dump", "--format=json", dir, output, sizeof output), 0);
    ck_assert_ptr_nonnull(strstr(output, "\"key\":\"key-3\",\"value\":\"second value of key 3\""));
}
END_TEST

TEST_SUITE(kvstore_kvcheck)
{
    if (!have_kvcheck()) {
        fprintf(stderr, "kvstore kvcheck: no kvcheck in $MQKV_BUILD, its tests are left out\n");
        return;
    }
    TCase *tests = tcase_create("kvcheck");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, kvcheck_finds_a_sound_store_sound, 0, 2);
    tcase_add_loop_test(tests, kvcheck_tells_and_salvages_every_flip_in_a_record, 0, 2);
    tcase_add_test(tests, kvcheck_salvages_a_damaged_header);
    tcase_add_test(tests, kvcheck_salvages_without_a_header_by_the_checkpoint);
    tcase_add_loop_test(tests, kvcheck_salvages_what_is_left_without_a_file, 0, 2);
    tcase_add_loop_test(tests, kvcheck_salvage_keeps_the_newer_of_two_files, 0, 2);
    tcase_add_loop_test(tests, kvcheck_salvages_impossible_versions, 0, 2);
    tcase_add_test(tests, kvcheck_refuses_a_store_in_use);
    tcase_add_test(tests, kvcheck_exit_status_tells_usage_from_failure);
    tcase_add_test(tests, kvcheck_dump_prints_every_record);
    suite_add_tcase(suite, tests);
}
