/*
 * Damaged stores: whatever is flipped or cut off, what is read is right, or the damage is told.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/numbers/random.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/record.h"
#include "tests/support/known_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

static char dir[STORE_DIR_BYTES];
static struct image image;
static struct content content;

static void set_up(void)
{
    known_begin(dir, &image, &content);
}

static void tear_down(void)
{
    known_end(dir, &image);
}

/* Flips ---------------------------------------------------------------------------------------- */

/* Bytes beyond the first ones and the records are zeros that nothing reads; a few are tried. */
static size_t next_to_flip(const struct image_file *file, size_t at)
{
    size_t used = file->size;
    while (used > 0 && file->bytes[used - 1] == 0)
        used--;
    if (strstr(file->name, ".index"))
        return at + 1;
    bool header_field = at < 48 || (at >= 511 && at < 544) || (at >= 1023 && at < 1056);
    if (header_field || (at >= FILE_HEADER_BYTES - 1 && at < used + 32))
        return at + 1;
    size_t step = at < FILE_HEADER_BYTES ? 101 : 10007;
    static const size_t starts[] = {511, 1023, FILE_HEADER_BYTES - 1};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (at < starts[i] && at + step > starts[i])
            return starts[i];
    return at + step;
}

/* Opens the damaged store that lies in dir. */
static void assert_damage_is_harmless(const char *file, const char *context)
{
    struct kvstore *store;
    struct kv_error error;
    enum kv_status status = known_store_open(dir, &store, &error);
    if (status != KV_OK) {
        ck_assert_msg(status == KV_CORRUPT || status == KV_MISMATCH, "%s: open: %s", context,
                      error.text);
        ck_assert_msg(strstr(error.text, file) != NULL, "%s: open does not name the file: %s",
                      context, error.text);
        ck_assert_msg(status == KV_MISMATCH || strstr(error.text, "kvcheck --salvage"),
                      "%s: open does not say what to do: %s", context, error.text);
        return;
    }
    assert_right_or_corrupt(store, &content, context);
    assert_scan_is_right(store, &content, context);
    kvstore_close(store, NULL);
    if (known_store_open(dir, &store, &error) != KV_OK)
        return; /* the rebuilt index met the damage */
    assert_right_or_corrupt(store, &content, context);
    kvstore_close(store, NULL);
}

static void flip_every_byte(bool with_checkpoint)
{
    known_store_make(dir, with_checkpoint, &image, &content);
    struct random_state random;
    random_seed(&random, 11);
    for (size_t i = 0; i < image.count; i++) {
        struct image_file *file = &image.files[i];
        for (size_t at = 0; at < file->size; at = next_to_flip(file, at)) {
            char context[96];
            uint8_t bits = (uint8_t)(1u << random_below(&random, 8));
            snprintf(context, sizeof context, "%s: byte %zu ^ %#x", file->name, at, bits);
            file->bytes[at] ^= bits;
            image_put(&image, dir);
            assert_damage_is_harmless(file->name, context);
            file->bytes[at] ^= bits;
        }
    }
}

START_TEST(flipped_bit_with_checkpoint)
{
    flip_every_byte(true);
}
END_TEST

START_TEST(flipped_bit_without_checkpoint)
{
    flip_every_byte(false);
}
END_TEST

/* Truncation ----------------------------------------------------------------------------------- */

/* A store as a kill leaves it: the first part synced, the second not, no checkpoint. Returns how
 * far the one file was synced. */
static uint64_t make_unclosed_store(void)
{
    struct kvstore_options options = {.create = true, .datafiles = 1, .compact_dead_percent = 100};
    struct kvstore *store;
    ck_assert_int_eq(kvstore_open(dir, &options, &store, NULL), KV_OK);
    known_fill(store, &content);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    known_put(store, &content, "late-1", "written after the sync");
    known_put(store, &content, "key-1", "changed after the sync");
    known_delete(store, &content, "key-2");
    known_put(store, &content, "late-2", "");
    image_take(&image, dir);
    kvstore_close(store, NULL);

    struct image_file *file = image_find(&image, "data.0000");
    struct file_identity identity;
    struct file_progress progress;
    ck_assert_int_eq(fileheader_read_identity(file->bytes, &identity), FILEHEADER_VALID);
    ck_assert(fileheader_read_progress(file->bytes, identity.salt, &progress));
    return progress.synced_offset;
}

static size_t end_of_records(const struct image_file *file)
{
    size_t end = file->size;
    while (file->bytes[end - 1] == 0)
        end--;
    return (end + RECORD_ALIGNMENT - 1) / RECORD_ALIGNMENT * RECORD_ALIGNMENT;
}

/* The store in dir has just what the first `bytes` of the log say, takes writes, and has them and
 * the rest after another open. */
static void assert_recovers_to(uint64_t bytes, const char *context)
{
    struct kvstore *store;
    struct kv_error error;
    struct content expected;
    struct image_file *file = image_find(&image, "data.0000");
    content_without(&image, file, bytes, UINT64_MAX, &expected);
    for (int round = 0; round < 2; round++) {
        enum kv_status status = known_store_open(dir, &store, &error);
        ck_assert_msg(status == KV_OK, "%s: %s", context, error.text);
        ck_assert_msg(assert_right_or_corrupt(store, &expected, context) == 0, "%s", context);
        assert_scan_is_right(store, &expected, context);
        struct known_entry *added = content_entry(&expected, kv_slice_from_string("added"));
        snprintf(added->value, sizeof added->value, "in round %d", round);
        added->present = true;
        ck_assert_int_eq(kvstore_put(store, kv_slice_from_string("added"),
                                     kv_slice_from_string(added->value), NULL, NULL),
                         KV_OK);
        ck_assert_int_eq(kvstore_close(store, NULL), KV_OK);
    }
}

/* Zeros that were zero before cut nothing off: the end of a record's padding, or of its value. */
static size_t first_lost_byte(const struct image_file *file, size_t length)
{
    while (length < file->size && file->bytes[length] == 0)
        length++;
    return length;
}

/* Either the file ends there, or zeros follow, as a crash leaves them in a preallocated file. */
static void truncate_every_length(bool zeros_follow)
{
    uint64_t synced = make_unclosed_store();
    struct image_file *file = image_find(&image, "data.0000");
    size_t end = end_of_records(file);
    size_t size = file->size;
    ck_assert_uint_lt(synced, end);
    for (size_t length = synced; length <= end; length++) {
        char context[96];
        snprintf(context, sizeof context, "%zu bytes of %zu, synced %zu", length, end,
                 (size_t)synced);
        uint8_t *whole = file->bytes;
        file->bytes = calloc(1, size);
        memcpy(file->bytes, whole, length);
        file->size = zeros_follow ? size : length;
        image_put(&image, dir);
        free(file->bytes);
        file->bytes = whole;
        file->size = size;
        assert_recovers_to(zeros_follow ? first_lost_byte(file, length) : length, context);
    }
}

START_TEST(every_truncation_of_the_unsynced_tail_is_recovered)
{
    truncate_every_length(false);
}
END_TEST

START_TEST(every_torn_tail_in_a_preallocated_file_is_recovered)
{
    truncate_every_length(true);
}
END_TEST

START_TEST(every_truncation_of_synced_records_is_refused)
{
    known_store_make(dir, _i == 0, &image, &content);
    struct image_file *file = image_find(&image, "data.0000");
    size_t end = end_of_records(file);
    size_t size = file->size;
    for (size_t length = 0; length < end; length += length < 4000 ? 199 : 1) {
        struct kvstore *store;
        struct kv_error error;
        file->size = length;
        image_put(&image, dir);
        file->size = size;
        enum kv_status status = known_store_open(dir, &store, &error);
        ck_assert_msg(status == KV_CORRUPT, "%zu bytes of %zu: %s", length, end,
                      status == KV_OK ? "opened" : error.text);
        ck_assert_msg(strstr(error.text, "data.0000") && strstr(error.text, "kvcheck"), "%s",
                      error.text);
    }
}
END_TEST

/* While the store is open ---------------------------------------------------------------------- */

#define KEY(text)  kv_slice_from_string(text)
#define AN_HOUR_MS 3600000u

/* Of the first record of a file, which has an expiry: a byte of each field that calls rely on. */
enum {
    VERSION_AT = FILE_HEADER_BYTES + 8,
    EXPIRY_AT = FILE_HEADER_BYTES + RECORD_HEADER_BYTES + 5, /* flipped, it has expired */
    KEY_AT = FILE_HEADER_BYTES + RECORD_HEADER_BYTES + 8,
    VALUE_AT = KEY_AT + 3
};
static const off_t fields[] = {VERSION_AT, EXPIRY_AT, KEY_AT, VALUE_AT};

/* A store whose one entry, "key", is damaged there. */
static struct kvstore *open_with_damage(off_t at, struct kvstore_written *written)
{
    const struct kvstore_options options = {.create = true, .datafiles = 1, .sweep_interval_ms = 1};
    struct kvstore_put_options expiring = {.expiry_ms = clock_realtime_ms() + AN_HOUR_MS};
    struct kvstore *store = must_open(dir, &options);
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("17"), &expiring, written), KV_OK);
    store_file_flip(dir, at);
    return store;
}

START_TEST(damage_is_told_by_every_call_that_relies_on_the_record)
{
    struct kvstore_written written;
    struct kvstore *store = open_with_damage(fields[_i], &written);
    const struct kvstore_put_options conditional[] = {
        {.condition = KVSTORE_IF_ABSENT},
        {.condition = KVSTORE_IF_PRESENT},
        {.condition = KVSTORE_IF_VERSION, .version = written.version},
        {.condition = KVSTORE_IF_VERSION, .version = written.version + 1},
        {.keep_expiry = true},
    };
    struct kv_slice key = KEY("key");
    char buffer[16];
    int64_t sum;
    ck_assert_int_eq(kvstore_get(store, key, buffer, sizeof buffer, NULL), KV_CORRUPT);
    for (size_t i = 0; i < sizeof conditional / sizeof *conditional; i++)
        ck_assert_int_eq(kvstore_put(store, key, KEY("new"), &conditional[i], NULL), KV_CORRUPT);
    ck_assert_int_eq(kvstore_delete(store, key, written.version, NULL), KV_CORRUPT);
    ck_assert_int_eq(kvstore_delete(store, key, written.version + 1, NULL), KV_CORRUPT);
    ck_assert_int_eq(kvstore_add(store, key, 1, NULL, &sum, NULL), KV_CORRUPT);
    ck_assert_int_eq(kvstore_append(store, key, KEY("8"), NULL, NULL), KV_CORRUPT);
    ck_assert_int_eq(kvstore_touch(store, key, 0, NULL), KV_CORRUPT);
    ck_assert_int_eq(
        kvstore_exchange(store, key, KEY("new"), NULL, buffer, sizeof buffer, NULL, NULL, NULL),
        KV_CORRUPT);
    ck_assert_uint_eq(total_statistics(store).appended_bytes, written.ticket.position);
    kvstore_close(store, NULL);
}
END_TEST

START_TEST(a_put_without_a_condition_replaces_a_damaged_record)
{
    struct kvstore *store = open_with_damage(fields[_i], NULL);
    must_put(store, "key", "new");
    ck_assert_str_eq(get_text(store, "key"), "new");
    ck_assert_uint_eq(total_statistics(store).keys, 1);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_OK);
    ck_assert_ptr_null(get_text(store, "key"));
    kvstore_close(store, NULL);
}
END_TEST

START_TEST(a_delete_without_a_condition_removes_a_damaged_record)
{
    struct kvstore *store = open_with_damage(fields[_i], NULL);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_OK);
    ck_assert_ptr_null(get_text(store, "key"));
    ck_assert_uint_eq(total_statistics(store).keys, 0);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_NOT_FOUND);
    kvstore_close(store, NULL);
}
END_TEST

static bool count_entry(void *context, const struct kvstore_scanned *entry)
{
    (void)entry;
    ++*(unsigned *)context;
    return true;
}

/* With all on one page, and with many pages. */
START_TEST(a_scan_goes_on_behind_a_damaged_record)
{
    struct kvstore *store = open_with_damage(VALUE_AT, NULL);
    char key[16];
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "k%u", i);
        must_put(store, key, "v");
    }
    unsigned damaged = 0, visited = 0;
    uint64_t cursor = 0;
    do {
        struct kvstore_scan_result result;
        uint64_t before = cursor;
        enum kv_status status = kvstore_scan(store, &cursor, KEY(""), _i == 0 ? 1000 : 3,
                                             count_entry, &visited, &result);
        ck_assert(status == KV_OK || status == KV_CORRUPT);
        ck_assert_uint_ne(cursor, before);
        ck_assert_uint_eq(result.bad_offset, status == KV_OK ? 0 : FILE_HEADER_BYTES);
        damaged += status == KV_CORRUPT;
    } while (cursor != 0);
    ck_assert_uint_eq(damaged, 1);
    ck_assert_uint_eq(visited, 100);
    kvstore_close(store, NULL);
}
END_TEST

static bool one_has_expired(void *store)
{
    return total_statistics(store).expired == 1;
}

START_TEST(the_sweeper_leaves_a_damaged_record)
{
    struct kvstore *store = open_with_damage(EXPIRY_AT, NULL);
    const struct kvstore_put_options past = {.expiry_ms = 1};
    char buffer[16];
    ck_assert_int_eq(kvstore_put(store, KEY("other"), KEY("v"), &past, NULL), KV_OK);
    ck_assert(wait_until(one_has_expired, store));
    clock_sleep_ms(10); /* a few sweeps more */
    ck_assert(one_has_expired(store));
    ck_assert_int_eq(kvstore_get(store, KEY("key"), buffer, sizeof buffer, NULL), KV_CORRUPT);
    kvstore_close(store, NULL);
}
END_TEST

TEST_SUITE(kvstore_damage)
{
    TCase *tests = tcase_create("damage");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, flipped_bit_with_checkpoint);
    tcase_add_test(tests, flipped_bit_without_checkpoint);
    tcase_add_test(tests, every_truncation_of_the_unsynced_tail_is_recovered);
    tcase_add_test(tests, every_torn_tail_in_a_preallocated_file_is_recovered);
    tcase_add_loop_test(tests, every_truncation_of_synced_records_is_refused, 0, 2);
    tcase_add_loop_test(tests, damage_is_told_by_every_call_that_relies_on_the_record, 0, 4);
    tcase_add_loop_test(tests, a_put_without_a_condition_replaces_a_damaged_record, 0, 4);
    tcase_add_loop_test(tests, a_delete_without_a_condition_removes_a_damaged_record, 0, 4);
    tcase_add_loop_test(tests, a_scan_goes_on_behind_a_damaged_record, 0, 2);
    tcase_add_test(tests, the_sweeper_leaves_a_damaged_record);
    suite_add_tcase(suite, tests);
}
