/*
 * The cache: alone, its bound, its policy on a trace made by hand, and its answers against a model;
 * in a store, that no write leaves an old value behind.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/report/log.h"
#include "common/numbers/random.h"
#include "kvstore/cache/cache.h"
#include "kvstore/log/fileio.h"
#include "tests/support/store_variants.h"
#include "tests/support/no_sync.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define SMALL_CACHE_BYTES (UINT64_C(64) << 10)
#define BUFFER_BYTES      65536u

static char buffer[BUFFER_BYTES];

/* Alone ---------------------------------------------------------------------------------------- */

/* Keys spread over buckets and fingerprints as a hash would. */
static uint32_t hash_of(unsigned key)
{
    return key * UINT32_C(2654435761);
}

static struct kv_slice key_text(unsigned key)
{
    static char text[16];
    return kv_slice(text, (size_t)snprintf(text, sizeof text, "%08u", key));
}

static void *place_in_own_buffer(void *context, size_t bytes)
{
    (void)context;
    return bytes <= sizeof buffer ? buffer : NULL;
}

static bool ask(struct cache *cache, unsigned key, struct kvstore_entry *entry)
{
    enum kv_status status;
    bool hit =
        cache_get(cache, 0, hash_of(key), key_text(key), place_in_own_buffer, NULL, entry, &status);
    if (hit)
        ck_assert_int_eq(status, KV_OK);
    return hit;
}

static void keep(struct cache *cache, unsigned key, uint64_t version, size_t value_bytes)
{
    static char value[BUFFER_BYTES];
    memset(value, (int)(key + version), value_bytes);
    struct record record = {.kind = RECORD_PUT,
                            .version = version,
                            .key = key_text(key),
                            .value = kv_slice(value, value_bytes)};
    cache_put(cache, 0, hash_of(key), &record);
}

static struct kvstore_cache_statistics statistics_of(struct cache *cache)
{
    struct kvstore_cache_statistics statistics;
    cache_statistics(cache, &statistics);
    return statistics;
}

START_TEST(the_bound_is_never_exceeded)
{
    struct random_state random;
    random_seed(&random, 7);
    struct cache *cache = cache_create(SMALL_CACHE_BYTES, 4, KVSTORE_ALLOCATOR_SYSTEM);
    for (unsigned i = 0; i < 20000; i++) {
        keep(cache, (unsigned)random_below(&random, 3000), 1, random_below(&random, 9000));
        struct kvstore_cache_statistics statistics = statistics_of(cache);
        ck_assert_uint_le(statistics.used_bytes, SMALL_CACHE_BYTES);
        ck_assert_uint_eq(statistics.max_bytes, SMALL_CACHE_BYTES);
    }
    struct kvstore_cache_statistics full = statistics_of(cache);
    ck_assert_uint_gt(full.used_bytes, SMALL_CACHE_BYTES / 2);
    ck_assert_uint_gt(full.evictions, 1000);
    ck_assert_uint_gt(full.entries, 0);
    cache_free(cache);
}
END_TEST

START_TEST(a_value_beyond_its_share_is_not_kept)
{
    struct cache *cache = cache_create(SMALL_CACHE_BYTES, 1, KVSTORE_ALLOCATOR_SYSTEM);
    keep(cache, 1, 1, SMALL_CACHE_BYTES / CACHE_ENTRY_SHARE);
    ck_assert_uint_eq(statistics_of(cache).entries, 0);
    keep(cache, 1, 1, SMALL_CACHE_BYTES / CACHE_ENTRY_SHARE / 2);
    ck_assert_uint_eq(statistics_of(cache).entries, 1);
    cache_free(cache);
}
END_TEST

/* Used twice, an entry outlives any number that pass by; used once, it goes in the order of its
 * coming. */
START_TEST(the_policy_on_a_trace_made_by_hand)
{
    enum { HOT = 1, COMES_BACK = 2, PASSING = 1000, BYTES = 900 };
    struct cache *cache = cache_create(SMALL_CACHE_BYTES, 1, KVSTORE_ALLOCATOR_SYSTEM);
    keep(cache, HOT, 1, BYTES);
    ck_assert(ask(cache, HOT, NULL));
    ck_assert(ask(cache, HOT, NULL));
    for (unsigned i = 0; statistics_of(cache).evictions == 0; i++)
        keep(cache, PASSING + i, 1, BYTES); /* fills, HOT moves to the main queue */
    ck_assert(!ask(cache, PASSING, NULL));
    ck_assert(ask(cache, PASSING + 1, NULL)); /* once is not enough: */
    keep(cache, 2 * PASSING, 1, BYTES);
    ck_assert(!ask(cache, PASSING + 1, NULL)); /* the first that is left goes */
    for (unsigned i = 0; i < 500; i++)
        keep(cache, 3 * PASSING + i, 1, BYTES);
    ck_assert(ask(cache, HOT, NULL));
    cache_free(cache);
}
END_TEST

START_TEST(what_comes_back_soon_stays)
{
    enum { GONE = 5, USED = 100, PASSING = 1000, LATER = 2000, BYTES = 900 };
    struct cache *cache = cache_create(SMALL_CACHE_BYTES, 1, KVSTORE_ALLOCATOR_SYSTEM);
    for (unsigned i = 0; i < 40; i++) {
        keep(cache, USED + i, 1, BYTES);
        ck_assert(ask(cache, USED + i, NULL));
        ck_assert(ask(cache, USED + i, NULL));
    }
    keep(cache, GONE, 1, BYTES);
    for (unsigned i = 0; statistics_of(cache).evictions == 0; i++)
        keep(cache, PASSING + i, 1, BYTES);
    ck_assert(!ask(cache, GONE, NULL));
    keep(cache, GONE, 1, BYTES); /* straight to the main queue */
    for (unsigned i = 0; i < 100; i++)
        keep(cache, LATER + i, 1, BYTES);
    ck_assert(ask(cache, GONE, NULL));
    ck_assert(!ask(cache, LATER, NULL));
    cache_free(cache);
}
END_TEST

START_TEST(what_it_has_is_left_out)
{
    struct cache *cache = cache_create(SMALL_CACHE_BYTES, 1, KVSTORE_ALLOCATOR_SYSTEM);
    uint32_t hashes[] = {hash_of(1), hash_of(2), hash_of(3), hash_of(4)};
    ck_assert_uint_eq(cache_leave_out(cache, 0, hashes, 4), 4);
    keep(cache, 1, 1, 10);
    keep(cache, 3, 1, 10);
    ck_assert_uint_eq(cache_leave_out(cache, 0, hashes, 4), 2);
    ck_assert_uint_eq(hashes[0], hash_of(2));
    ck_assert_uint_eq(hashes[1], hash_of(4));
    cache_free(cache);
}
END_TEST

START_TEST(random_operations_against_a_model)
{
    enum { KEYS = 400 };
    static uint64_t versions[KEYS]; /* 0: no value; the cache may know this version or nothing */
    static size_t sizes[KEYS];
    struct random_state random;
    random_seed(&random, (uint64_t)_i);
    struct cache *cache = cache_create(SMALL_CACHE_BYTES, 3, KVSTORE_ALLOCATOR_SYSTEM);
    uint64_t hits = 0;
    memset(versions, 0, sizeof versions);
    for (uint64_t step = 1; step < 20000; step++) {
        unsigned key = (unsigned)random_below(&random, KEYS);
        struct kvstore_entry entry;
        switch (random_below(&random, 4)) {
        case 0: /* a write */
            cache_remove(cache, 0, hash_of(key), key_text(key));
            versions[key] = step;
            sizes[key] = random_below(&random, 700);
            break;
        case 1: /* a delete */
            cache_remove(cache, 0, hash_of(key), key_text(key));
            versions[key] = 0;
            break;
        default:
            if (ask(cache, key, &entry)) {
                hits++;
                ck_assert_uint_eq(entry.version, versions[key]);
                ck_assert_uint_eq(entry.value_bytes, sizes[key]);
                size_t same = 0;
                while (same < sizes[key] && buffer[same] == (char)(key + versions[key]))
                    same++;
                ck_assert_uint_eq(same, sizes[key]);
            } else if (versions[key] != 0) {
                keep(cache, key, versions[key], sizes[key]);
            }
        }
    }
    ck_assert_uint_gt(hits, 1000);
    ck_assert_uint_eq(statistics_of(cache).hits, hits);
    cache_free(cache);
}
END_TEST

/* In a store ----------------------------------------------------------------------------------- */

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;
static struct kvstore_options options = {.create = true,
                                         .datafiles = 2,
                                         .compact_dead_percent = 100,
                                         .sweep_interval_ms = 1,
                                         .cache_bytes = UINT64_C(256) << 10};

static void set_up(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    no_sync_install();
    store_dir_make(dir);
    store = must_open(dir, &options);
}

static void tear_down(void)
{
    must_close(store);
    no_sync_clear();
    store_dir_remove(dir);
}

static uint64_t hits(void)
{
    struct kvstore_cache_statistics statistics;
    kvstore_cache_statistics(store, &statistics);
    return statistics.hits;
}

/* The key's value is in the cache, and is this one. */
static void check_cached(const char *key, const char *value)
{
    ck_assert_str_eq(get_text(store, key), value);
    uint64_t before = hits();
    ck_assert_str_eq(get_text(store, key), value);
    ck_assert_uint_eq(hits(), before + 1);
}

static struct kv_slice text(const char *bytes)
{
    return kv_slice_from_string(bytes);
}

START_TEST(every_write_is_seen_at_once)
{
    struct kvstore_entry entry;
    bool found;
    must_put(store, "n", "1");
    check_cached("n", "1");
    must_put(store, "n", "20");
    check_cached("n", "20");
    ck_assert_int_eq(kvstore_add(store, text("n"), 2, NULL, NULL, NULL), KV_OK);
    check_cached("n", "22");
    ck_assert_int_eq(kvstore_append(store, text("n"), text("3"), NULL, NULL), KV_OK);
    check_cached("n", "223");
    ck_assert_int_eq(kvstore_exchange(store, text("n"), text("4"), NULL, buffer, sizeof buffer,
                                      &found, NULL, NULL),
                     KV_OK);
    check_cached("n", "4");
    uint64_t expiry_ms = clock_realtime_ms() + 1000000;
    ck_assert_int_eq(kvstore_touch(store, text("n"), expiry_ms, NULL), KV_OK);
    check_cached("n", "4");
    ck_assert_int_eq(get_entry(store, "n", &entry), KV_OK);
    ck_assert_uint_eq(entry.expiry_ms, expiry_ms);
    ck_assert_int_eq(kvstore_delete(store, text("n"), 0, NULL), KV_OK);
    ck_assert_ptr_null(get_text(store, "n"));
    must_put(store, "n", "5");
    check_cached("n", "5");
    ck_assert_int_eq(kvstore_touch(store, text("n"), 1, NULL), KV_OK);
    ck_assert_ptr_null(get_text(store, "n"));
}
END_TEST

/* Of a record that is written with a call, before the index shows it. */
#define CALL_BYTES 16384u

static uint64_t entries_at_write;

static ssize_t note_entries(int fd, const void *data, size_t size, off_t offset)
{
    struct kvstore_cache_statistics statistics;
    kvstore_cache_statistics(store, &statistics);
    if (size >= CALL_BYTES)
        entries_at_write = statistics.entries;
    return fileio_system.write_at(fd, data, size, offset);
}

/* Else who reads the index without the daemon sees the new value, and one who asks it then the old
 * one. */
START_TEST(a_key_is_forgotten_before_a_write_of_it_shows)
{
    static char value[CALL_BYTES]; /* its record is written with a call */
    memset(value, 'x', CALL_BYTES - 1);
    must_put(store, "n", "1");
    check_cached("n", "1");
    struct fileio noting = *fileio;
    noting.write_at = note_entries;
    const struct fileio *usual = fileio;
    entries_at_write = UINT64_MAX;
    fileio = &noting;
    must_put(store, "n", value);
    fileio = usual;
    ck_assert_uint_eq(entries_at_write, 0);
}
END_TEST

START_TEST(compaction_and_reopening_change_nothing)
{
    must_put_numbers(store, 0, 500);
    check_numbers(store, 0, 500);
    for (uint32_t file = 0; file < 2; file++)
        ck_assert_int_eq(kvstore_compact(store, file, NULL), KV_OK);
    check_numbers(store, 0, 500);
    must_close(store);
    store = must_open(dir, &options);
    check_numbers(store, 0, 500);
}
END_TEST

static bool is_gone(void *key)
{
    return get_text(store, key) == NULL;
}

static bool is_swept(void *context)
{
    (void)context;
    return total_statistics(store).keys == 0;
}

START_TEST(a_cached_entry_expires)
{
    char key[] = "brief";
    struct kvstore_cache_statistics statistics;
    struct kvstore_put_options put = {.expiry_ms = clock_realtime_ms() + 300};
    ck_assert_int_eq(kvstore_put(store, text(key), text("value"), &put, NULL), KV_OK);
    get_text(store, key);
    ck_assert(wait_until(is_gone, key));
    ck_assert(wait_until(is_swept, NULL));
    kvstore_cache_statistics(store, &statistics);
    ck_assert_uint_eq(statistics.entries, 0);
}
END_TEST

START_TEST(what_a_get_wants_beside_the_value)
{
    struct kvstore_entry entry;
    char small[2];
    uint64_t version = must_put(store, "key", "value");
    check_cached("key", "value");
    uint64_t before = hits();
    ck_assert_int_eq(get_entry(store, "key", &entry), KV_OK);
    ck_assert_uint_eq(entry.version, version);
    ck_assert_int_eq(kvstore_get(store, text("key"), small, sizeof small, &entry),
                     KV_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(entry.value_bytes, 5);
    ck_assert_uint_eq(hits(), before + 2);
}
END_TEST

static size_t asked_bytes;

static void *place_in_room(void *room, size_t bytes)
{
    asked_bytes = bytes;
    return room;
}

static void *place_nowhere(void *context, size_t bytes)
{
    (void)context;
    asked_bytes = bytes;
    return NULL;
}

/* As the daemon gets a value: the engine asks for the place, and looks once. */
START_TEST(a_get_that_asks_for_the_place_counts_once)
{
    static const struct {
        const char *key;
        size_t value_bytes;
        bool is_kept; /* not where it would fill the cache */
    } cases[] = {{"middling", 1000, true}, {"large", 20000, false}};
    static char value[20000], room[20000];
    for (size_t i = 0; i < 2; i++) {
        struct kvstore_cache_statistics before, after;
        struct kvstore_entry entry;
        struct kv_slice key = text(cases[i].key);
        memset(value, (int)i + 1, sizeof value);
        ck_assert_int_eq(kvstore_put(store, key, kv_slice(value, cases[i].value_bytes), NULL, NULL),
                         KV_OK);
        kvstore_cache_statistics(store, &before);
        ck_assert_int_eq(kvstore_get_to(store, key, place_in_room, room, &entry), KV_OK);
        ck_assert_uint_eq(asked_bytes, cases[i].value_bytes);
        ck_assert_uint_eq(entry.value_bytes, cases[i].value_bytes);
        ck_assert_mem_eq(room, value, cases[i].value_bytes);
        kvstore_cache_statistics(store, &after);
        ck_assert_uint_eq(after.misses, before.misses + 1);
        ck_assert_uint_eq(after.hits, before.hits);
        memset(room, 0, sizeof room);
        ck_assert_int_eq(kvstore_get_to(store, key, place_in_room, room, &entry), KV_OK);
        ck_assert_mem_eq(room, value, cases[i].value_bytes);
        kvstore_cache_statistics(store, &after);
        ck_assert_uint_eq(after.misses, before.misses + (cases[i].is_kept ? 1 : 2));
        ck_assert_uint_eq(after.hits, before.hits + (cases[i].is_kept ? 1 : 0));
    }
}
END_TEST

START_TEST(a_get_that_is_shown_no_place_copies_nothing)
{
    struct kvstore_entry entry = {0};
    must_put(store, "key", "value");
    for (unsigned cached = 0; cached < 2; cached++) {
        asked_bytes = 0;
        ck_assert_int_eq(kvstore_get_to(store, text("key"), place_nowhere, NULL, &entry),
                         KV_BUFFER_TOO_SMALL);
        ck_assert_uint_eq(asked_bytes, 5);
        ck_assert_uint_eq(entry.value_bytes, 5);
    }
    asked_bytes = 0;
    ck_assert_int_eq(kvstore_get_to(store, text("absent"), place_nowhere, NULL, &entry),
                     KV_NOT_FOUND);
    ck_assert_uint_eq(asked_bytes, 0);
    ck_assert_int_eq(kvstore_get_to(store, text("key"), NULL, NULL, &entry), KV_OK);
    ck_assert_uint_eq(asked_bytes, 0);
}
END_TEST

START_TEST(a_cache_that_is_too_small_is_refused)
{
    struct kv_error error = {0};
    struct kvstore *none;
    struct kvstore_options tiny = {.cache_bytes = 1000};
    ck_assert_int_eq(kvstore_open(dir, &tiny, &none, &error), KV_USAGE);
    ck_assert_ptr_nonnull(strstr(error.text, "65536"));
}
END_TEST

/* Writers count up; a reader that has seen a number never sees a lower one. */
#define COUNTERS 8
#define COUNTS   4000
#define READERS  2

static atomic_bool counted;

static void *count_up(void *unused)
{
    (void)unused;
    for (int i = 0; i < COUNTS; i++)
        for (int counter = 0; counter < COUNTERS; counter++)
            if (kvstore_add(store, text(numbered("counter", counter)), 1, NULL, NULL, NULL) !=
                KV_OK)
                abort();
    atomic_store(&counted, true);
    return NULL;
}

static void *read_counters(void *unused)
{
    long seen[COUNTERS] = {0};
    (void)unused;
    while (!atomic_load(&counted)) {
        for (int counter = 0; counter < COUNTERS; counter++) {
            long number = atol(get_text(store, numbered("counter", counter)));
            if (number < seen[counter])
                abort();
            seen[counter] = number;
        }
    }
    return NULL;
}

START_TEST(no_reader_goes_back_in_time)
{
    const enum kvstore_locking lockings[] = {KVSTORE_FILE_RWLOCK, optimistic_if_there()};
    pthread_t writer, readers[READERS];
    must_close(store);
    options.locking = lockings[_i];
    store = must_open(dir, &options);
    atomic_store(&counted, false);
    for (int counter = 0; counter < COUNTERS; counter++)
        must_put(store, numbered("counter", counter), "0");
    pthread_create(&writer, NULL, count_up, NULL);
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_counters, NULL);
    for (uint32_t file = 0; !atomic_load(&counted); file = 1 - file)
        ck_assert_int_eq(kvstore_compact(store, file, NULL), KV_OK);
    pthread_join(writer, NULL);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    for (int counter = 0; counter < COUNTERS; counter++)
        ck_assert_int_eq(atol(get_text(store, numbered("counter", counter))), COUNTS);
}
END_TEST

TEST_SUITE(kvstore_cache)
{
    TCase *alone = tcase_create("alone");
    tcase_add_test(alone, the_bound_is_never_exceeded);
    tcase_add_test(alone, a_value_beyond_its_share_is_not_kept);
    tcase_add_test(alone, the_policy_on_a_trace_made_by_hand);
    tcase_add_test(alone, what_comes_back_soon_stays);
    tcase_add_test(alone, what_it_has_is_left_out);
    tcase_add_loop_test(alone, random_operations_against_a_model, 0, 4);
    suite_add_tcase(suite, alone);
    TCase *in_store = tcase_create("in_store");
    tcase_add_checked_fixture(in_store, set_up, tear_down);
    tcase_add_test(in_store, every_write_is_seen_at_once);
    tcase_add_test(in_store, a_key_is_forgotten_before_a_write_of_it_shows);
    tcase_add_test(in_store, compaction_and_reopening_change_nothing);
    tcase_add_test(in_store, a_cached_entry_expires);
    tcase_add_test(in_store, what_a_get_wants_beside_the_value);
    tcase_add_test(in_store, a_get_that_asks_for_the_place_counts_once);
    tcase_add_test(in_store, a_get_that_is_shown_no_place_copies_nothing);
    tcase_add_test(in_store, a_cache_that_is_too_small_is_refused);
    tcase_add_loop_test(in_store, no_reader_goes_back_in_time, 0, 2);
    suite_add_tcase(suite, in_store);
}
