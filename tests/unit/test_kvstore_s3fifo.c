/*
 * S3-FIFO over hashes: against a model of the keys that are there, what it evicts first, that keys
 * which go otherwise leave nothing behind, and its memory.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "kvstore/eviction/hash_marks.h"
#include "kvstore/eviction/s3fifo.h"
#include "tests/support/test_suite.h"

#define KEYS         4096u
#define RECORD_BYTES 64u

static struct s3fifo *policy;

static void set_up(void)
{
    policy = s3fifo_create();
    ck_assert_ptr_nonnull(policy);
}

static void tear_down(void)
{
    s3fifo_free(policy);
}

static uint32_t hash_of(uint32_t key)
{
    return key * UINT32_C(2654435761);
}

START_TEST(what_was_used_stays_and_the_rest_goes_in_order)
{
    uint32_t hash;
    for (uint32_t key = 0; key < 100; key++)
        s3fifo_insert(policy, hash_of(key), RECORD_BYTES);
    for (int i = 0; i < 2; i++)
        s3fifo_use(policy, hash_of(7));
    s3fifo_use(policy, hash_of(8)); /* once is not enough */
    for (uint32_t key = 0; key < 50; key++) {
        if (key == 7)
            continue;
        ck_assert(s3fifo_next(policy, 100 * RECORD_BYTES, &hash));
        ck_assert_uint_eq(hash, hash_of(key));
    }
}
END_TEST

START_TEST(what_comes_back_soon_comes_into_the_main_queue)
{
    uint32_t hash;
    for (uint32_t key = 0; key < 100; key++)
        s3fifo_insert(policy, hash_of(key), RECORD_BYTES);
    ck_assert(s3fifo_next(policy, 100 * RECORD_BYTES, &hash));
    ck_assert_uint_eq(hash, hash_of(0));
    s3fifo_insert(policy, hash, RECORD_BYTES);
    for (uint32_t key = 1; key < 90; key++) { /* as long as the small queue is too large */
        ck_assert(s3fifo_next(policy, 100 * RECORD_BYTES, &hash));
        ck_assert_uint_ne(hash, hash_of(0));
    }
}
END_TEST

/* Keys come, are used, go and are evicted at random; a model says which are there. */
START_TEST(each_key_that_is_there_is_evicted_once)
{
    static bool there[KEYS];
    struct random_state random;
    uint32_t count = 0, hash;
    random_seed(&random, 3);
    for (unsigned i = 0; i < 400000; i++) {
        uint32_t key = (uint32_t)random_below(&random, KEYS);
        if (there[key] && random_below(&random, 2) == 0) {
            s3fifo_use(policy, hash_of(key));
        } else if (there[key]) {
            s3fifo_forget(policy, hash_of(key));
            there[key] = false;
            count--;
        } else {
            s3fifo_insert(policy, hash_of(key), RECORD_BYTES);
            there[key] = true;
            count++;
        }
        while (count > KEYS / 4) {
            ck_assert(s3fifo_next(policy, count * RECORD_BYTES, &hash));
            uint32_t gone = hash * UINT32_C(244002641); /* the inverse of hash_of */
            if (gone >= KEYS || !there[gone])           /* a mark was given up */
                continue;
            there[gone] = false;
            count--;
        }
        ck_assert_uint_le(s3fifo_count(policy), 2 * KEYS);
    }
    while (s3fifo_next(policy, count * RECORD_BYTES, &hash)) {
        uint32_t gone = hash * UINT32_C(244002641);
        if (gone < KEYS && there[gone]) {
            there[gone] = false;
            count--;
        }
    }
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(one_key_that_comes_and_goes_takes_no_memory)
{
    uint64_t before = s3fifo_memory_bytes(policy);
    for (unsigned i = 0; i < 200000; i++) {
        s3fifo_insert(policy, hash_of(i % 3), RECORD_BYTES);
        s3fifo_forget(policy, hash_of(i % 3));
    }
    ck_assert_uint_le(s3fifo_memory_bytes(policy), before + 64 * 1024);
}
END_TEST

START_TEST(a_key_costs_some_fourteen_bytes)
{
    uint64_t keys = 1000000;
    for (uint32_t key = 0; key < keys; key++)
        s3fifo_insert(policy, hash_of(key), RECORD_BYTES);
    uint32_t hash;
    for (uint32_t key = 0; key < keys; key++) /* most of them in the main queue */
        s3fifo_use(policy, hash_of(key)), s3fifo_use(policy, hash_of(key));
    ck_assert(s3fifo_next(policy, keys * RECORD_BYTES, &hash));
    ck_assert_uint_le(s3fifo_memory_bytes(policy), 16 * keys);
}
END_TEST

START_TEST(marks_are_a_set_with_repetition)
{
    struct hash_marks marks = {0};
    for (uint32_t i = 0; i < 5000; i++)
        for (uint32_t times = 0; times < 2; times++)
            hash_marks_add(&marks, i * 512);
    for (uint32_t i = 0; i < 5000; i += 2)
        for (uint32_t times = 0; times < 3; times++)
            ck_assert(hash_marks_take(&marks, i * 512) == (times < 2));
    for (uint32_t i = 1; i < 5000; i += 2)
        for (uint32_t times = 0; times < 3; times++)
            ck_assert(hash_marks_take(&marks, i * 512) == (times < 2));
    ck_assert_uint_eq(marks.count, 0);
    hash_marks_clear(&marks);
}
END_TEST

TEST_SUITE(kvstore_s3fifo)
{
    TCase *tests = tcase_create("s3fifo");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_was_used_stays_and_the_rest_goes_in_order);
    tcase_add_test(tests, what_comes_back_soon_comes_into_the_main_queue);
    tcase_add_test(tests, each_key_that_is_there_is_evicted_once);
    tcase_add_test(tests, one_key_that_comes_and_goes_takes_no_memory);
    tcase_add_test(tests, a_key_costs_some_fourteen_bytes);
    tcase_add_test(tests, marks_are_a_set_with_repetition);
    suite_add_tcase(suite, tests);
}
