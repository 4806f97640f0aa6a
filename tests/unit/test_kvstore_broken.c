/* A data file that is shortened, or whose pages cannot be read, while it is mapped: KV_IO, no more
 * writes, and zeros never for data. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory/mapguard.h"
#include "mqkv/kvstore.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEYS 2000

static char dir[STORE_DIR_BYTES];
static char path[STORE_DIR_BYTES + 16];
static struct kvstore *store;

static struct kv_slice key_of(int i, char text[16])
{
    snprintf(text, 16, "key%d", i);
    return kv_slice_from_string(text);
}

/* Values whose every byte says whose they are, some of them large ones, which are verified once
 * only. */
static size_t value_of(int i, char *value)
{
    size_t size = i % 50 == 0 ? 20000 : 100;
    memset(value, 'a' + i % 26, size);
    return size;
}

static void fill(void)
{
    char text[16], value[20000];
    store_dir_make(dir);
    snprintf(path, sizeof path, "%s/data.0000", dir);
    struct kvstore_options options = {.create = true,
                                      .datafiles = 1,
                                      .durability = KVSTORE_SYNC_NONE,
                                      .cache_bytes = 0,
                                      .locking = KVSTORE_FILE_RWLOCK};
    ck_assert_int_eq(kvstore_open(dir, &options, &store, NULL), KV_OK);
    for (int i = 0; i < KEYS; i++)
        ck_assert_int_eq(
            kvstore_put(store, key_of(i, text), kv_slice(value, value_of(i, value)), NULL, NULL),
            KV_OK);
    mapguard_install("test");
}

static void clean_up(void)
{
    kvstore_close(store, NULL);
    store_dir_remove(dir);
}

static void shorten(off_t size)
{
    ck_assert_int_eq(truncate(path, size), 0);
}

/* Gets every key: what comes is right. How many came. */
static int get_all(void)
{
    int found = 0;
    char text[16], value[20000], expected[20000];
    for (int i = 0; i < KEYS; i++) {
        struct kvstore_entry entry;
        enum kv_status status = kvstore_get(store, key_of(i, text), value, sizeof value, &entry);
        if (status != KV_OK) {
            ck_assert_int_eq(status, KV_IO);
            continue;
        }
        ck_assert_uint_eq(entry.value_bytes, value_of(i, expected));
        ck_assert_mem_eq(value, expected, entry.value_bytes);
        found++;
    }
    return found;
}

START_TEST(reads_are_right_or_fail)
{
    ck_assert_int_eq(get_all(), KEYS);
    shorten(400000);
    int found = get_all();
    ck_assert_int_gt(found, 0);
    ck_assert_int_lt(found, KEYS);
    ck_assert_int_eq(get_all(), found);
    shorten(0);
    get_all();
}
END_TEST

START_TEST(it_takes_no_more_writes)
{
    char text[16], value[20000];
    shorten(8192);
    enum kv_status status =
        kvstore_put(store, kv_slice_from_string("new"), kv_slice("value", 5), NULL, NULL);
    ck_assert_int_eq(status, KV_IO);
    ck_assert_int_eq(kvstore_put(store, key_of(1, text), kv_slice("value", 5), NULL, NULL),
                     KV_READ_ONLY);
    ck_assert_int_eq(
        kvstore_put(store, key_of(1, text), kv_slice(value, value_of(0, value)), NULL, NULL),
        KV_READ_ONLY);
    struct kvstore_file_statistics statistics;
    kvstore_file_statistics(store, 0, &statistics);
    ck_assert(statistics.read_only);
    ck_assert_int_ne(kvstore_sync(store), KV_OK);
    ck_assert_int_ne(kvstore_compact(store, 0, NULL), KV_OK);
    ck_assert_int_eq(kvstore_close(store, NULL), KV_NOT_DURABLE);
    store = NULL;
}
END_TEST

/* What an append reads may be gone: then it is not written as zeros under a checksum that holds. */
START_TEST(what_depends_on_lost_bytes_is_not_written)
{
    char text[16];
    shorten(8192);
    enum kv_status status =
        kvstore_append(store, key_of(KEYS - 1, text), kv_slice("more", 4), NULL, NULL);
    ck_assert(status == KV_IO || status == KV_READ_ONLY);
    status = kvstore_touch(store, key_of(KEYS - 1, text), 0, NULL);
    ck_assert(status == KV_IO || status == KV_READ_ONLY);
}
END_TEST

static bool check_entry(void *context, const struct kvstore_scanned *entry)
{
    int *seen = context;
    *seen += entry->value.size > 0;
    return true;
}

START_TEST(a_scan_and_a_compaction_fail)
{
    shorten(100000);
    uint64_t cursor = 0;
    int seen = 0, failures = 0;
    for (unsigned i = 0; i < 10 * KEYS; i++) {
        enum kv_status status =
            kvstore_scan(store, &cursor, kv_slice(NULL, 0), 100, check_entry, &seen, NULL);
        ck_assert(status == KV_OK || status == KV_IO);
        failures += status == KV_IO;
        if (cursor == 0)
            break;
    }
    ck_assert_int_gt(failures, 0);
    struct kv_error error = {0};
    ck_assert_int_ne(kvstore_compact(store, 0, &error), KV_OK);
    get_all();
}
END_TEST

/* Opened again, it is judged by what is there: nothing was made of the zeros meanwhile. */
START_TEST(what_is_left_is_as_it_was)
{
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    shorten(400000);
    int found = get_all();
    ck_assert_int_eq(kvstore_close(store, NULL), KV_NOT_DURABLE);
    struct kv_error error = {0};
    struct kvstore_options options = {.read_only = true};
    enum kv_status status = kvstore_open(dir, &options, &store, &error);
    if (status == KV_OK) /* it was never noted as synced so far */
        ck_assert_int_eq(get_all(), found);
    else
        ck_assert_int_eq(status, KV_CORRUPT);
}
END_TEST

TEST_SUITE(kvstore_broken)
{
    TCase *cases = tcase_create("broken");
    tcase_add_checked_fixture(cases, fill, clean_up);
    tcase_add_test(cases, reads_are_right_or_fail);
    tcase_add_test(cases, it_takes_no_more_writes);
    tcase_add_test(cases, what_depends_on_lost_bytes_is_not_written);
    tcase_add_test(cases, a_scan_and_a_compaction_fail);
    tcase_add_test(cases, what_is_left_is_as_it_was);
    suite_add_tcase(suite, cases);
}
