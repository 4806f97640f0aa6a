#include "clientk/message/key_set.h"

#include <check.h>

#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

START_TEST(reads_pass_each_other_and_writes_pass_nothing)
{
    struct key_set set = {.slots = NULL};
    ck_assert(!key_set_conflicts(&set, 7, true));
    ck_assert(key_set_add(&set, 7, false));
    ck_assert(!key_set_conflicts(&set, 7, false));
    ck_assert(key_set_conflicts(&set, 7, true));
    ck_assert(!key_set_conflicts(&set, 8, true));
    ck_assert(key_set_add(&set, 7, true));
    ck_assert(key_set_conflicts(&set, 7, false));
    key_set_remove(&set, 7, true);
    ck_assert(!key_set_conflicts(&set, 7, false));
    key_set_remove(&set, 7, false);
    ck_assert(!key_set_conflicts(&set, 7, true));
    ck_assert_uint_eq(set.used, 0);
    key_set_free(&set);
}
END_TEST

/* Hashes that all want the same few slots, so that runs wrap around and are torn by removals. */
static uint64_t crowded_hash(unsigned i)
{
    return (uint64_t)i << 32 | (250 + i % 11);
}

START_TEST(crowded_keys_are_found_until_they_are_removed)
{
    enum { KEYS = 600, STEPS = 100000 };
    static unsigned reads[KEYS];
    struct key_set set = {.slots = NULL};
    struct random_state random;
    random_seed(&random, 42);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned key = (unsigned)random_below(&random, KEYS);
        if (reads[key] > 0 && random_below(&random, 2) == 0) {
            key_set_remove(&set, crowded_hash(key), false);
            reads[key]--;
        } else if (reads[key] < 3) {
            ck_assert(key_set_add(&set, crowded_hash(key), false));
            reads[key]++;
        }
        unsigned probe = (unsigned)random_below(&random, KEYS);
        ck_assert_int_eq(key_set_conflicts(&set, crowded_hash(probe), true), reads[probe] > 0);
    }
    for (unsigned key = 0; key < KEYS; key++)
        for (; reads[key] > 0; reads[key]--)
            key_set_remove(&set, crowded_hash(key), false);
    for (unsigned i = 0; i < KEYS; i++)
        ck_assert(!key_set_conflicts(&set, crowded_hash(i), true));
    key_set_free(&set);
}
END_TEST

START_TEST(hash_sees_every_byte_and_the_length)
{
    char bytes[24] = "0123456789abcdefghijklm";
    for (size_t size = 1; size < sizeof bytes; size++) {
        uint64_t hash = key_set_hash(kv_slice(bytes, size));
        ck_assert_uint_ne(hash, key_set_hash(kv_slice(bytes, size - 1)));
        for (size_t i = 0; i < size; i++) {
            bytes[i] ^= 1;
            ck_assert_uint_ne(hash, key_set_hash(kv_slice(bytes, size)));
            bytes[i] ^= 1;
        }
        ck_assert_uint_eq(hash, key_set_hash(kv_slice(bytes, size)));
    }
    ck_assert_uint_ne(key_set_hash(kv_slice("\0", 1)), key_set_hash(kv_slice("\0\0", 2)));
}
END_TEST

TEST_SUITE(clientk_key_set)
{
    TCase *tcase = tcase_create("key_set");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, reads_pass_each_other_and_writes_pass_nothing);
    tcase_add_test(tcase, crowded_keys_are_found_until_they_are_removed);
    tcase_add_test(tcase, hash_sees_every_byte_and_the_length);
    suite_add_tcase(suite, tcase);
}
