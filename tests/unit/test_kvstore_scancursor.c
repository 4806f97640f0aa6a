/* Cursors and hashes: what they give away, and what becomes of keys that crowd. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/numbers/random.h"
#include "kvstore/index/index.h"
#include "kvstore/format/keyhash.h"
#include "kvstore/shared/scan_cursor.h"
#include "kvstore/api/store.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)
#define STABLE    2000

/* How often each key "s<number>" was visited, and how many entries may still be. */
struct cursor_visits {
    unsigned counts[STABLE];
    unsigned room;
};

static bool count_visit(void *context, const struct kvstore_scanned *entry)
{
    struct cursor_visits *visits = context;
    char number[16] = "";
    if (visits->room == 0)
        return false;
    visits->room--;
    memcpy(number, (const char *)entry->key.data + 1, entry->key.size - 1);
    visits->counts[atoi(number)]++;
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

static void check_each_once(const struct cursor_visits *visits, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(visits->counts[i] == 1, "s%d visited %u times", i, visits->counts[i]);
}

static const struct hash_key some_key = {
    {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};

/* The reference implementation's example key, and the input 00 01 02 ...: its SipHash-1-3. */
START_TEST(the_hash_is_siphash_1_3)
{
    static const struct {
        size_t size;
        uint64_t hash;
    } known[] = {{0, UINT64_C(0xabac0158050fc4dc)},
                 {1, UINT64_C(0xc9f49bf37d57ca93)},
                 {2, UINT64_C(0x82cb9b024dc7d44d)},
                 {8, UINT64_C(0x369095118d299a8e)}};
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ck_assert_uint_eq(keyhash(&some_key, kv_slice(bytes, known[i].size)), known[i].hash);
}
END_TEST

START_TEST(a_cursor_is_a_position_and_not_its_hash)
{
    struct random_state random;
    random_seed(&random, 1);
    const uint64_t files[] = {0, 1, 2047, 4095};
    for (int i = 0; i < 100000; i++) {
        uint64_t file = files[random_below(&random, 4)];
        uint64_t hash = random_next(&random) >> (i % 2 == 0 ? 32 : 60);
        uint64_t tie = i % 3 == 0 ? random_below(&random, 1u << SCAN_TIE_BITS) : 0;
        uint64_t position = (file << SCAN_HASH_BITS | hash) << SCAN_TIE_BITS | tie;
        uint64_t cursor = scan_cursor_of_position(&some_key, position), back;
        ck_assert(scan_cursor_position(&some_key, cursor, &back));
        ck_assert_uint_eq(back, position);
        ck_assert_uint_eq(cursor >> 52, file);
        ck_assert_int_eq(cursor << 12 == 0, hash == 0 && tie == 0);
        if (tie == 0 && file < 2048)
            ck_assert(cursor < UINT64_C(1) << 63 && (uint64_t)(double)cursor == cursor);
        /* One of an older version was the hash itself, and 20 bits of zeros. */
        uint64_t older = file << 52 | hash << 20;
        ck_assert(hash == 0 || !scan_cursor_position(&some_key, older, &back));
    }
}
END_TEST

/* Whoever puts keys and scans learns nothing of their hashes but an order: neither a cursor nor the
 * hash behind it is what XXH3 and the store's seed would give. */
START_TEST(a_scan_gives_no_hash_away)
{
    put_stable(300);
    struct file_identity identity = store->context.files[0].current->log.identity;
    unsigned hashes = 0, given = 0;
    char key[32];
    uint64_t cursor = 0;
    do {
        struct cursor_visits visits = {.room = 1};
        ck_assert_int_eq(kvstore_scan(store, &cursor, KEY("s"), 1, count_visit, &visits, NULL),
                         KV_OK);
        for (int i = 0; i < 300; i++) {
            snprintf(key, sizeof key, "s%d", i);
            uint64_t xxh = XXH3_64bits_withSeed(key, strlen(key), identity.store_seed) >> 32;
            uint64_t sip = keyhash_index(keyhash(&identity.hash_key, KEY(key)));
            hashes += visits.counts[i] && ((cursor >> 20 & UINT32_MAX) - xxh <= 1 ||
                                           (cursor >> 20 & UINT32_MAX) - sip <= 1);
            given += visits.counts[i];
        }
    } while (cursor != 0);
    ck_assert_uint_eq(given, 300);
    ck_assert_uint_eq(hashes, 0);
}
END_TEST

/* A store of an older version has no hash key: it gets one, which then stays. */
START_TEST(an_older_store_gets_a_hash_key)
{
    struct cursor_visits visits = {.room = 1000};
    struct image image;
    put_stable(2000);
    must_close(store);
    image_take(&image, dir);
    for (size_t i = 0; i < image.count; i++)
        if (strlen(image.files[i].name) == strlen("data.0000"))
            memset(image.files[i].bytes + fileheader_note_offset(FILE_NOTE_HASH_KEY), 0,
                   FILE_NOTE_PLACE_BYTES);
    image_put(&image, dir); /* checkpoints and all: these are of another key */
    image_free(&image);
    store = must_open(dir, NULL);
    ck_assert_str_eq(get_text(store, "s7"), "s7");
    uint64_t cursor = 0;
    ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 1000, count_visit, &visits, NULL),
                     KV_OK);
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    for (int round = 0; round < 2; round++) {
        must_close(store);
        store = must_open(dir, NULL);
    }
    struct kvstore_file_statistics statistics;
    kvstore_file_statistics(store, 0, &statistics);
    ck_assert(statistics.from_checkpoint);
    while (cursor != 0) {
        visits.room = UINT32_MAX;
        ck_assert_int_eq(kvstore_scan(store, &cursor, KEY(""), 1000, count_visit, &visits, NULL),
                         KV_OK);
    }
    check_each_once(&visits, 2000);
}
END_TEST

/* Keys that all have one hash in the index, as only who knows its key could make them. The index
 * parts them from others by the first 20 bits: a key that has these by chance, one in a million, is
 * refused, too. */
#define CROWD_HASH 0x12345678u

static bool is_of_the_crowd(const char *key)
{
    const struct hash_key *secret = &store->context.files[0].current->log.identity.hash_key;
    return (keyhash_index(keyhash(secret, KEY(key))) ^ CROWD_HASH) >> (32 - 20) == 0;
}

START_TEST(a_crowd_of_one_hash_is_refused_by_name_and_hurts_no_other)
{
    struct generation *generation = store->context.files[0].current;
    struct lookup lookup;
    char key[32];
    int stored = 0;
    enum kv_status status = KV_OK;
    for (int i = 0; i < 1000 && status == KV_OK; i++) {
        snprintf(key, sizeof key, "crowd %d", i);
        struct record record = {.kind = RECORD_PUT, .version = 1, .key = KEY(key)};
        generation_find(generation, CROWD_HASH, KEY(key), &lookup);
        status = generation_append(generation, &lookup, &record, kv_slice(NULL, 0));
        stored += status == KV_OK;
    }
    ck_assert_int_eq(status, KV_CROWDED);
    ck_assert_int_eq(stored, INDEX_SEGMENT_SLOTS);
    ck_assert_str_ne(kv_status_text(KV_CROWDED), kv_status_text(KV_NO_MEMORY));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2000; i++) {
            snprintf(key, sizeof key, "s%d", i);
            if (is_of_the_crowd(key))
                continue;
            if (round == 0)
                must_put(store, key, key);
            else
                ck_assert_pstr_eq(get_text(store, key), key);
        }
}
END_TEST

TEST_SUITE(kvstore_scancursor)
{
    TCase *tests = tcase_create("scancursor");
    one_file_case_add(tests);
    tcase_add_test(tests, the_hash_is_siphash_1_3);
    tcase_add_test(tests, a_cursor_is_a_position_and_not_its_hash);
    tcase_add_test(tests, a_scan_gives_no_hash_away);
    tcase_add_test(tests, an_older_store_gets_a_hash_key);
    tcase_add_test(tests, a_crowd_of_one_hash_is_refused_by_name_and_hurts_no_other);
    suite_add_tcase(suite, tests);
}
