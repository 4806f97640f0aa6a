#include "mqkv/kvstore.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "kvstore/format/keyhash.h"
#include "kvstore/api/store_create.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#include <fcntl.h>
#include <unistd.h>

#define KEY(text) kv_slice_from_string(text)
#define STABLE    3000

/* How often each key "s<number>" was visited; it takes `room` entries at most. */
struct store_visits {
    unsigned counts[STABLE];
    unsigned others;
    unsigned room;
    unsigned refused;
};

static bool count_visit(void *context, const struct kvstore_scanned *entry)
{
    struct store_visits *visits = context;
    char text[32] = "";
    if (visits->room == 0) {
        visits->refused++;
        return false;
    }
    visits->room--;
    memcpy(text, entry->key.data, entry->key.size < 31 ? entry->key.size : 31);
    int number = text[0] == 's' ? atoi(text + 1) : -1;
    if (number < 0)
        visits->others++;
    else
        visits->counts[number]++;
    return true;
}

static void put_stable(int count)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "s%d", i);
        must_put(store, key, key);
    }
}

static void check_each_once(const struct store_visits *visits, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(visits->counts[i] == 1, "s%d visited %u times", i, visits->counts[i]);
}

static void scan_all(struct store_visits *visits, const char *prefix, uint32_t max_entries,
                     unsigned room)
{
    uint64_t cursor = 0;
    do {
        visits->room = room;
        ck_assert_int_eq(
            kvstore_scan(store, &cursor, KEY(prefix), max_entries, count_visit, visits, NULL),
            KV_OK);
    } while (cursor != 0);
}

START_TEST(an_empty_store_has_nothing_to_visit)
{
    struct store_visits visits = {.room = 1};
    uint64_t cursor = 0;
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 10, count_visit, &visits, NULL), KV_OK);
    ck_assert_uint_eq(cursor, 0);
    ck_assert_uint_eq(visits.room, 1);
}
END_TEST

START_TEST(every_entry_is_visited_once)
{
    static const uint32_t max_entries[] = {1, 2, 7, 100, 1u << 30};
    struct store_visits visits = {0};
    put_stable(STABLE);
    scan_all(&visits, "", max_entries[_i], UINT32_MAX);
    check_each_once(&visits, STABLE);
}
END_TEST

START_TEST(the_visitor_may_refuse_at_any_time)
{
    struct store_visits visits = {0};
    put_stable(500);
    scan_all(&visits, "", 100, 1 + (unsigned)_i);
    check_each_once(&visits, 500);
    ck_assert_uint_gt(visits.refused, 0);
}
END_TEST

START_TEST(a_refusal_at_once_leaves_the_cursor)
{
    struct store_visits visits = {.room = 3};
    uint64_t cursor = 0;
    put_stable(100);
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 100, count_visit, &visits, NULL), KV_OK);
    ck_assert_uint_ne(cursor, 0);
    uint64_t unchanged = cursor;
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 100, count_visit, &visits, NULL), KV_OK);
    ck_assert_uint_eq(cursor, unchanged);
}
END_TEST

START_TEST(a_prefix_narrows_the_scan)
{
    struct store_visits visits = {0};
    put_stable(300);
    char key[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "other %d", i);
        must_put(store, key, "v");
    }
    scan_all(&visits, "s", 10, UINT32_MAX);
    check_each_once(&visits, 300);
    ck_assert_uint_eq(visits.others, 0);
    /* A scan that finds nothing stops now and then all the same. */
    uint64_t cursor = 0;
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY("none"), 1, count_visit, &visits, NULL),
                     KV_OK);
    ck_assert_uint_ne(cursor, 0);
}
END_TEST

static bool check_entry(void *context, const struct kvstore_scanned *entry)
{
    const struct kvstore_entry *expected = context;
    ck_assert(kv_slice_equal(entry->key, KEY("key")));
    ck_assert(kv_slice_equal(entry->value, KEY("value")));
    ck_assert_uint_eq(entry->version, expected->version);
    ck_assert_uint_eq(entry->expiry_ms, expected->expiry_ms);
    return true;
}

START_TEST(a_visit_has_all_of_the_entry)
{
    struct kvstore_entry entry;
    struct kvstore_put_options options = {.expiry_ms = clock_realtime_ms() + 3600000};
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("value"), &options, NULL), KV_OK);
    ck_assert_int_eq(get_entry(store, "key", &entry), KV_OK);
    options.expiry_ms = 1;
    ck_assert_int_eq(kvstore_put(store, KEY("expired"), KEY("v"), &options, NULL), KV_OK);
    uint64_t cursor = 0;
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 10, check_entry, &entry, NULL), KV_OK);
    ck_assert_uint_eq(cursor, 0);
}
END_TEST

START_TEST(a_foreign_cursor_is_refused)
{
    struct store_visits visits = {0};
    uint64_t cursor = UINT64_MAX;
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 1, count_visit, &visits, NULL),
                     KV_BAD_REQUEST);
    cursor = (uint64_t)KVSTORE_DEFAULT_DATAFILES << 52;
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 1, count_visit, &visits, NULL),
                     KV_BAD_REQUEST);
}
END_TEST

START_TEST(a_cursor_outlives_a_restart)
{
    struct store_visits visits = {.room = 1000};
    uint64_t cursor = 0;
    put_stable(2000);
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 1000, count_visit, &visits, NULL),
                     KV_OK);
    ck_assert_int_eq(kvstore_compact(store, 2, NULL), KV_OK);
    must_close(store);
    store = must_open(dir, NULL);
    while (cursor != 0) {
        visits.room = UINT32_MAX;
        ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 1000, count_visit, &visits, NULL),
                         KV_OK);
    }
    check_each_once(&visits, 2000);
}
END_TEST

/* Keys of one hash ----------------------------------------------------------------------------- */

struct hashed {
    uint64_t place; /* file and hash of the index */
    int number;
};

static int compare_places(const void *a, const void *b)
{
    uint64_t x = ((const struct hashed *)a)->place, y = ((const struct hashed *)b)->place;
    return (x > y) - (x < y);
}

static struct file_identity identity_of_store(void)
{
    struct file_identity identity;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(store_identify(dir_fd, dir, &identity, NULL), KV_OK);
    close(dir_fd);
    return identity;
}

/* Puts up to `limit` pairs of keys "s<n>" whose file and index hash are the same, numbered from 0
 * through a value; returns how many keys. */
static int put_colliding_keys(char keys[][32], int limit)
{
    enum { TRIED = 600000 };
    struct hashed *hashed = malloc(TRIED * sizeof *hashed);
    struct file_identity identity = identity_of_store();
    char key[32];
    int count = 0;
    for (int i = 0; i < TRIED; i++) {
        snprintf(key, sizeof key, "k%d", i);
        uint64_t hash = keyhash(&identity.hash_key, KEY(key));
        uint64_t file = keyhash_file(identity.store_seed, KEY(key), KVSTORE_DEFAULT_DATAFILES);
        hashed[i] = (struct hashed){file << 32 | keyhash_index(hash), i};
    }
    qsort(hashed, TRIED, sizeof *hashed, compare_places);
    for (int i = 1; i < TRIED && count + 2 <= limit; i++) {
        if (hashed[i].place != hashed[i - 1].place)
            continue;
        snprintf(keys[count++], 32, "k%d", hashed[i - 1].number);
        snprintf(keys[count++], 32, "k%d", hashed[i].number);
        i++;
    }
    free(hashed);
    for (int i = 0; i < count; i++)
        must_put(store, keys[i], keys[i]);
    return count;
}

struct collected {
    char keys[32][32];
    unsigned count;
    unsigned room;
};

static bool collect_key(void *context, const struct kvstore_scanned *entry)
{
    struct collected *collected = context;
    if (collected->room == 0 || collected->count == 32)
        return false;
    collected->room--;
    memcpy(collected->keys[collected->count], entry->key.data, entry->key.size);
    collected->keys[collected->count++][entry->key.size] = '\0';
    return true;
}

START_TEST(keys_of_one_hash_are_told_apart)
{
    char keys[20][32];
    int count = put_colliding_keys(keys, 20);
    ck_assert_int_ge(count, 2);
    for (int i = 0; i < count; i++)
        ck_assert_str_eq(get_text(store, keys[i]), keys[i]);

    struct collected collected = {.count = 0};
    uint64_t cursor = 0;
    do {
        collected.room = 1; /* refuses in the middle of each pair */
        ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 10, collect_key, &collected, NULL),
                         KV_OK);
    } while (cursor != 0);
    ck_assert_uint_eq(collected.count, (unsigned)count);
    for (int i = 0; i < count; i++) {
        unsigned times = 0;
        for (unsigned j = 0; j < collected.count; j++)
            times += strcmp(keys[i], collected.keys[j]) == 0;
        ck_assert_uint_eq(times, 1);
    }
    for (int i = 0; i < count; i += 2)
        ck_assert_int_eq(kvstore_delete(store, KEY(keys[i]), 0, NULL), KV_OK);
    for (int i = 0; i < count; i++)
        ck_assert_pstr_eq(get_text(store, keys[i]), i % 2 ? keys[i] : NULL);
}
END_TEST

/* Concurrent writes ---------------------------------------------------------------------------- */

static atomic_bool scanning;

/* Keeps changing everything but which stable keys there are: their values, other keys, how many of
 * these there are (the indexes grow), where the records lie. */
static void *disturb(void *argument)
{
    char key[32];
    (void)argument;
    for (int i = 0; atomic_load(&scanning); i++) {
        snprintf(key, sizeof key, "s%d", i * 7 % STABLE);
        must_put(store, key, "another value");
        snprintf(key, sizeof key, "passing %d", i % 20000);
        must_put(store, key, "v");
        snprintf(key, sizeof key, "passing %d", (i + 5000) % 20000);
        kvstore_delete(store, KEY(key), 0, NULL);
    }
    return NULL;
}

static void *keep_compacting(void *argument)
{
    (void)argument;
    for (uint32_t i = 0; atomic_load(&scanning); i++)
        kvstore_compact(store, i % KVSTORE_DEFAULT_DATAFILES, NULL);
    return NULL;
}

START_TEST(what_stays_is_visited_once_whatever_else_happens)
{
    pthread_t writer, compactor;
    put_stable(STABLE);
    atomic_store(&scanning, true);
    ck_assert_int_eq(pthread_create(&writer, NULL, disturb, NULL), 0);
    ck_assert_int_eq(pthread_create(&compactor, NULL, keep_compacting, NULL), 0);
    for (int round = 0; round < 10; round++) {
        struct store_visits visits = {0};
        scan_all(&visits, round % 2 ? "s" : "", 1 + (uint32_t)round * 20, UINT32_MAX);
        check_each_once(&visits, STABLE);
    }
    atomic_store(&scanning, false);
    pthread_join(writer, NULL);
    pthread_join(compactor, NULL);
}
END_TEST

/* Whole files ---------------------------------------------------------------------------------- */

static void scan_files(struct store_visits *visits, const char *prefix, uint32_t files)
{
    uint64_t cursor = 0;
    uint32_t calls = 0;
    do {
        visits->room = UINT32_MAX;
        ck_assert_int_eq(kvstore_scan_file(store, &cursor, KEY(prefix), count_visit, visits),
                         KV_OK);
        calls++;
    } while (cursor != 0);
    ck_assert_uint_eq(calls, files);
}

START_TEST(a_call_visits_a_whole_file)
{
    put_stable(STABLE);
    must_put(store, "other", "x");
    struct store_visits visits = {.others = 0};
    scan_files(&visits, "", KVSTORE_DEFAULT_DATAFILES);
    check_each_once(&visits, STABLE);
    ck_assert_uint_eq(visits.others, 1);
    struct store_visits narrowed = {.others = 0};
    scan_files(&narrowed, "s", KVSTORE_DEFAULT_DATAFILES);
    check_each_once(&narrowed, STABLE);
    ck_assert_uint_eq(narrowed.others, 0);
}
END_TEST

START_TEST(a_refusal_or_a_foreign_cursor_leaves_the_cursor_of_files)
{
    put_stable(STABLE);
    struct store_visits visits = {.room = 3};
    uint64_t cursor = UINT64_C(1) << 52;
    ck_assert_int_eq(kvstore_scan_file(store, &cursor, KEY(""), count_visit, &visits), KV_OK);
    ck_assert_uint_eq(visits.refused, 1);
    ck_assert_uint_eq(cursor, UINT64_C(1) << 52);
    cursor++;
    ck_assert_int_eq(kvstore_scan_file(store, &cursor, KEY(""), count_visit, &visits),
                     KV_BAD_REQUEST);
    cursor = (uint64_t)KVSTORE_DEFAULT_DATAFILES << 52;
    ck_assert_int_eq(kvstore_scan_file(store, &cursor, KEY(""), count_visit, &visits),
                     KV_BAD_REQUEST);
}
END_TEST

#define ROUND_KEYS 500

/* A store of one data file, in which a writer sets key 0, 1, 2 and so on to the number of the
 * round. */
static void *write_rounds(void *nothing)
{
    (void)nothing;
    char key[16], round[16];
    for (int i = 1; atomic_load(&scanning); i++) {
        snprintf(round, sizeof round, "%d", i);
        for (int k = 0; k < ROUND_KEYS; k++) {
            snprintf(key, sizeof key, "%d", k);
            must_put(store, key, round);
        }
    }
    return NULL;
}

static bool collect_round(void *context, const struct kvstore_scanned *entry)
{
    int *rounds = context;
    char key[16] = "", value[16] = "";
    memcpy(key, entry->key.data, entry->key.size);
    memcpy(value, entry->value.data, entry->value.size);
    rounds[atoi(key)] = atoi(value);
    return true;
}

START_TEST(a_file_is_seen_at_one_moment)
{
    must_close(store);
    store_dir_remove(dir);
    struct kvstore_options options = {.create = true, .datafiles = 1};
    store_dir_make(dir);
    store = must_open(dir, &options);
    char key[16];
    for (int k = 0; k < ROUND_KEYS; k++) {
        snprintf(key, sizeof key, "%d", k);
        must_put(store, key, "0");
    }
    pthread_t writer;
    atomic_store(&scanning, true);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_rounds, NULL), 0);
    for (int i = 0, last = 0; i < 300 || last == 0; i++) {
        int rounds[ROUND_KEYS] = {0};
        uint64_t cursor = 0;
        ck_assert_int_eq(kvstore_scan_file(store, &cursor, KEY(""), collect_round, rounds), KV_OK);
        ck_assert_uint_eq(cursor, 0);
        for (int k = 1; k < ROUND_KEYS; k++)
            ck_assert_msg(rounds[k] == rounds[k - 1] || rounds[k] == rounds[0] - 1,
                          "key %d is of round %d, key %d of %d", k - 1, rounds[k - 1], k,
                          rounds[k]);
        last = rounds[0];
    }
    atomic_store(&scanning, false);
    pthread_join(writer, NULL);
}
END_TEST

START_TEST(a_file_of_too_many_entries_is_refused)
{
    must_close(store);
    store_dir_remove(dir);
    struct kvstore_options options = {.create = true, .datafiles = 1};
    store_dir_make(dir);
    store = must_open(dir, &options);
    must_put_numbers(store, 0, KVSTORE_SCAN_FILE_ENTRIES + 1000);
    struct store_visits visits = {.room = UINT32_MAX};
    uint64_t cursor = 0;
    ck_assert_int_eq(kvstore_scan_file(store, &cursor, KEY("none"), count_visit, &visits),
                     KV_LIMIT);
    ck_assert_uint_eq(cursor, 0);
}
END_TEST

TEST_SUITE(kvstore_scan)
{
    TCase *tests = tcase_create("scan");
    store_case_add_open(tests);
    tcase_add_test(tests, an_empty_store_has_nothing_to_visit);
    tcase_add_loop_test(tests, every_entry_is_visited_once, 0, 5);
    tcase_add_loop_test(tests, the_visitor_may_refuse_at_any_time, 0, 3);
    tcase_add_test(tests, a_refusal_at_once_leaves_the_cursor);
    tcase_add_test(tests, a_prefix_narrows_the_scan);
    tcase_add_test(tests, a_visit_has_all_of_the_entry);
    tcase_add_test(tests, a_foreign_cursor_is_refused);
    tcase_add_test(tests, a_cursor_outlives_a_restart);
    tcase_add_test(tests, keys_of_one_hash_are_told_apart);
    tcase_add_test(tests, what_stays_is_visited_once_whatever_else_happens);
    tcase_add_test(tests, a_call_visits_a_whole_file);
    tcase_add_test(tests, a_refusal_or_a_foreign_cursor_leaves_the_cursor_of_files);
    tcase_add_test(tests, a_file_is_seen_at_one_moment);
    tcase_add_test(tests, a_file_of_too_many_entries_is_refused);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
