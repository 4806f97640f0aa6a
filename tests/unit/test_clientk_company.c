#include "clientk/company.h"

#include <check.h>

#include "tests/unit/suites.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

START_TEST(a_thread_alone_reads_no_clock_and_waits_for_nobody)
{
    struct company company = {0};
    ck_assert(!company_matters(&company, 1));
    company_note(&company, 1, 0);
    ck_assert(!company_matters(&company, 1));
    ck_assert_uint_eq(company_patience_ns(&company, 1), 0);
}
END_TEST

START_TEST(who_was_there_is_waited_for)
{
    struct company company = {0};
    ck_assert(company_matters(&company, 2));
    company_note(&company, 25, 800 * US);
    ck_assert(company_matters(&company, 1));
    ck_assert_uint_eq(company_patience_ns(&company, 12), 100 * US);
    ck_assert_uint_eq(company_patience_ns(&company, 25), 0);
    ck_assert_uint_eq(company_patience_ns(&company, 30), 0);
}
END_TEST

START_TEST(who_did_not_come_back_is_not_waited_for_again)
{
    struct company company = {0};
    company_note(&company, 25, 800 * US);
    ck_assert_uint_gt(company_patience_ns(&company, 3), 0);
    company_note(&company, 3, 800 * US);
    ck_assert_uint_eq(company_patience_ns(&company, 3), 0);
}
END_TEST

START_TEST(a_short_round_is_not_waited_for_nor_long_for_a_long_one)
{
    struct company company = {0};
    company_note(&company, 25, 4 * US);
    ck_assert_uint_eq(company_patience_ns(&company, 12), 0);
    company_note(&company, 25, 5000 * MS);
    ck_assert_uint_le(company_patience_ns(&company, 12), MS);
    ck_assert_uint_gt(company_patience_ns(&company, 12), 0);
}
END_TEST

Suite *suite_clientk_company(void)
{
    Suite *suite = suite_create("clientk_company");
    TCase *tests = tcase_create("company");
    tcase_add_test(tests, a_thread_alone_reads_no_clock_and_waits_for_nobody);
    tcase_add_test(tests, who_was_there_is_waited_for);
    tcase_add_test(tests, who_did_not_come_back_is_not_waited_for_again);
    tcase_add_test(tests, a_short_round_is_not_waited_for_nor_long_for_a_long_one);
    suite_add_tcase(suite, tests);
    return suite;
}
