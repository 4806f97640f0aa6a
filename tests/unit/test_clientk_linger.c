#include "clientk/combining/linger.h"

#include <check.h>

#include "tests/support/test_suite.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

START_TEST(a_thread_alone_reads_no_clock_and_waits_for_nobody)
{
    struct linger linger = {0};
    ck_assert(!linger_matters(&linger, 1));
    linger_note(&linger, 1, 0);
    ck_assert(!linger_matters(&linger, 1));
    ck_assert_uint_eq(linger_time_ns(&linger, 1), 0);
}
END_TEST

START_TEST(who_was_there_is_waited_for)
{
    struct linger linger = {0};
    ck_assert(linger_matters(&linger, 2));
    linger_note(&linger, 25, 800 * US);
    ck_assert(linger_matters(&linger, 1));
    ck_assert_uint_eq(linger_time_ns(&linger, 12), 100 * US);
    ck_assert_uint_eq(linger_time_ns(&linger, 25), 0);
    ck_assert_uint_eq(linger_time_ns(&linger, 30), 0);
}
END_TEST

START_TEST(who_did_not_come_back_is_not_waited_for_again)
{
    struct linger linger = {0};
    linger_note(&linger, 25, 800 * US);
    ck_assert_uint_gt(linger_time_ns(&linger, 3), 0);
    linger_note(&linger, 3, 800 * US);
    ck_assert_uint_eq(linger_time_ns(&linger, 3), 0);
}
END_TEST

START_TEST(a_short_round_is_not_waited_for_nor_long_for_a_long_one)
{
    struct linger linger = {0};
    linger_note(&linger, 25, 4 * US);
    ck_assert_uint_eq(linger_time_ns(&linger, 12), 0);
    linger_note(&linger, 25, 5000 * MS);
    ck_assert_uint_le(linger_time_ns(&linger, 12), MS);
    ck_assert_uint_gt(linger_time_ns(&linger, 12), 0);
}
END_TEST

TEST_SUITE(clientk_linger)
{
    TCase *tests = tcase_create("linger");
    tcase_add_test(tests, a_thread_alone_reads_no_clock_and_waits_for_nobody);
    tcase_add_test(tests, who_was_there_is_waited_for);
    tcase_add_test(tests, who_did_not_come_back_is_not_waited_for_again);
    tcase_add_test(tests, a_short_round_is_not_waited_for_nor_long_for_a_long_one);
    suite_add_tcase(suite, tests);
}
