#include <check.h>
#include <signal.h>
#include <stdbool.h>

#include "common/assert/assert.h"
#include "tests/support/test_suite.h"

static int evaluations;

static bool evaluate(bool result)
{
    evaluations++;
    return result;
}

START_TEST(a_condition_that_holds_is_evaluated_where_assertions_are_built_in)
{
    KV_ASSERT(evaluate(true));
#ifdef MQKV_ASSERT
    ck_assert_int_eq(evaluations, 1);
#else
    ck_assert_int_eq(evaluations, 0);
#endif
}
END_TEST

START_TEST(a_condition_that_does_not_hold_aborts_where_assertions_are_built_in)
{
    KV_ASSERT(evaluate(false));
#ifdef MQKV_ASSERT
    ck_abort_msg("KV_ASSERT returned");
#else
    ck_assert_int_eq(evaluations, 0);
    raise(SIGABRT);
#endif
}
END_TEST

TEST_SUITE(common_assert)
{
    TCase *tcase = tcase_create("assert");
    tcase_add_test(tcase, a_condition_that_holds_is_evaluated_where_assertions_are_built_in);
    tcase_add_test_raise_signal(
        tcase, a_condition_that_does_not_hold_aborts_where_assertions_are_built_in, SIGABRT);
    suite_add_tcase(suite, tcase);
}
