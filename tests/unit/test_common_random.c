#include <check.h>

#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

/* From the reference implementation (https://prng.di.unimi.it/xoshiro256starstar.c) with the state
 * 1, 2, 3, 4. */
START_TEST(the_sequence_is_that_of_xoshiro256_star_star)
{
    struct random_state state = {{1, 2, 3, 4}};
    const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        ck_assert_uint_eq(random_next(&state), expected[i]);
}
END_TEST

/* The first outputs of the reference splitmix64 (https://prng.di.unimi.it/splitmix64.c), seed 0. */
START_TEST(the_seed_goes_through_splitmix64)
{
    struct random_state state;
    random_seed(&state, 0);
    ck_assert_uint_eq(state.s[0], 0xe220a8397b1dcdafu);
    ck_assert_uint_eq(state.s[1], 0x6e789e6aa1b965f4u);
    ck_assert_uint_eq(state.s[2], 0x06c45d188009454fu);
    ck_assert_uint_eq(state.s[3], 0xf88bb8a8724c81ecu);
}
END_TEST

START_TEST(equal_seeds_give_equal_sequences)
{
    struct random_state a, b, c;
    random_seed(&a, 42);
    random_seed(&b, 42);
    random_seed(&c, 43);
    int different = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t value = random_next(&a);
        ck_assert_uint_eq(value, random_next(&b));
        different += value != random_next(&c);
    }
    ck_assert_int_eq(different, 100);
}
END_TEST

START_TEST(below_stays_below_and_is_even)
{
    struct random_state state;
    random_seed(&state, 7);
    int seen[10] = {0};
    for (int i = 0; i < 100000; i++)
        seen[random_below(&state, 10)]++;
    for (int i = 0; i < 10; i++) {
        ck_assert_int_gt(seen[i], 9500); /* five standard deviations are 474 */
        ck_assert_int_lt(seen[i], 10500);
    }
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(random_below(&state, 1), 0);
    ck_assert_uint_lt(random_below(&state, UINT64_MAX), UINT64_MAX);
}
END_TEST

START_TEST(unit_is_in_its_range)
{
    struct random_state state;
    random_seed(&state, 9);
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double value = random_unit(&state);
        ck_assert(value >= 0 && value < 1);
        sum += value;
    }
    ck_assert(sum > 49500 && sum < 50500); /* five standard deviations are 456 */
    struct random_state highest = {{0, UINT64_MAX, 0, 0}};
    ck_assert(random_unit(&highest) < 1);
}
END_TEST

START_TEST(secrets_do_not_repeat)
{
    uint64_t first = random_secret();
    ck_assert_uint_ne(first, random_secret());
}
END_TEST

TEST_SUITE(common_random)
{
    TCase *tests = tcase_create("random");
    tcase_add_test(tests, the_sequence_is_that_of_xoshiro256_star_star);
    tcase_add_test(tests, the_seed_goes_through_splitmix64);
    tcase_add_test(tests, equal_seeds_give_equal_sequences);
    tcase_add_test(tests, below_stays_below_and_is_even);
    tcase_add_test(tests, unit_is_in_its_range);
    tcase_add_test(tests, secrets_do_not_repeat);
    suite_add_tcase(suite, tests);
}
