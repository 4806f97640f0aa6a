#include <check.h>

#include "tests/history/history.h"
#include "tests/support/test_suite.h"

#define CHECK(list, initial) history_check(list, sizeof(list) / sizeof *(list), initial)

START_TEST(one_after_the_other)
{
    struct history_operation list[] = {
        {HISTORY_PUT, true, 1, 0, 10, 20},
        {HISTORY_GET, true, 0, 1, 30, 40},
        {HISTORY_DELETE, true, 0, 0, 50, 60},
        {HISTORY_GET, false, 0, HISTORY_ABSENT, 70, 80},
    };
    ck_assert_int_eq(CHECK(list, HISTORY_ABSENT), HISTORY_LINEARIZABLE);
}
END_TEST

START_TEST(stale_read_is_a_violation)
{
    struct history_operation list[] = {
        {HISTORY_PUT, true, 1, 0, 10, 20},
        {HISTORY_PUT, true, 2, 0, 30, 40},
        {HISTORY_GET, true, 0, 1, 50, 60},
    };
    ck_assert_int_eq(CHECK(list, HISTORY_ABSENT), HISTORY_VIOLATION);
}
END_TEST

START_TEST(overlapping_write_may_be_seen_or_not)
{
    for (int64_t seen = 1; seen <= 2; seen++) {
        struct history_operation list[] = {
            {HISTORY_PUT, true, 1, 0, 10, 20},
            {HISTORY_PUT, true, 2, 0, 30, 100},
            {HISTORY_GET, true, 0, seen, 40, 50},
        };
        ck_assert_int_eq(CHECK(list, HISTORY_ABSENT), HISTORY_LINEARIZABLE);
    }
}
END_TEST

START_TEST(new_then_old_is_a_violation)
{
    struct history_operation list[] = {
        {HISTORY_PUT, true, 1, 0, 10, 20},
        {HISTORY_PUT, true, 2, 0, 30, 200},
        {HISTORY_GET, true, 0, 2, 40, 50},
        {HISTORY_GET, true, 0, 1, 60, 70},
    };
    ck_assert_int_eq(CHECK(list, HISTORY_ABSENT), HISTORY_VIOLATION);
}
END_TEST

START_TEST(lost_update_of_add_is_a_violation)
{
    struct history_operation good[] = {
        {HISTORY_ADD, true, 1, 2, 10, 50},
        {HISTORY_ADD, true, 1, 1, 10, 50},
    };
    struct history_operation bad[] = {
        {HISTORY_ADD, true, 1, 1, 10, 50},
        {HISTORY_ADD, true, 1, 1, 10, 50},
    };
    ck_assert_int_eq(CHECK(good, HISTORY_ABSENT), HISTORY_LINEARIZABLE);
    ck_assert_int_eq(CHECK(bad, HISTORY_ABSENT), HISTORY_VIOLATION);
}
END_TEST

START_TEST(two_winners_of_put_if_absent_is_a_violation)
{
    struct history_operation list[] = {
        {HISTORY_PUT_IF_ABSENT, true, 1, 0, 10, 50},
        {HISTORY_PUT_IF_ABSENT, true, 2, 0, 10, 50},
    };
    ck_assert_int_eq(CHECK(list, HISTORY_ABSENT), HISTORY_VIOLATION);
}
END_TEST

START_TEST(put_if_present_needs_the_key)
{
    struct history_operation good[] = {
        {HISTORY_PUT, true, 1, 0, 10, 20},
        {HISTORY_PUT_IF_PRESENT, true, 2, 0, 30, 40},
        {HISTORY_GET, true, 0, 2, 50, 60},
    };
    struct history_operation bad[] = {{HISTORY_PUT_IF_PRESENT, true, 2, 0, 30, 40}};
    struct history_operation denied[] = {
        {HISTORY_PUT, true, 1, 0, 10, 20},
        {HISTORY_PUT_IF_PRESENT, false, 2, 0, 30, 40},
    };
    ck_assert_int_eq(CHECK(good, HISTORY_ABSENT), HISTORY_LINEARIZABLE);
    ck_assert_int_eq(CHECK(bad, HISTORY_ABSENT), HISTORY_VIOLATION);
    ck_assert_int_eq(CHECK(denied, HISTORY_ABSENT), HISTORY_VIOLATION);
}
END_TEST

START_TEST(pending_write_may_happen_late_or_never)
{
    struct history_operation late[] = {
        {HISTORY_PUT, true, 1, 0, 10, 20},
        {HISTORY_PUT, true, 2, 0, 12, HISTORY_PENDING},
        {HISTORY_GET, true, 0, 1, 30, 40},
        {HISTORY_GET, true, 0, 2, 50, 60},
    };
    struct history_operation never[] = {
        {HISTORY_PUT, true, 1, 0, 10, 20},
        {HISTORY_PUT, true, 2, 0, 12, HISTORY_PENDING},
        {HISTORY_GET, true, 0, 1, 30, 40},
    };
    struct history_operation before_it_was_sent[] = {
        {HISTORY_GET, true, 0, 2, 5, 8},
        {HISTORY_PUT, true, 2, 0, 12, HISTORY_PENDING},
    };
    ck_assert_int_eq(CHECK(late, HISTORY_ABSENT), HISTORY_LINEARIZABLE);
    ck_assert_int_eq(CHECK(never, HISTORY_ABSENT), HISTORY_LINEARIZABLE);
    ck_assert_int_eq(CHECK(before_it_was_sent, HISTORY_ABSENT), HISTORY_VIOLATION);
}
END_TEST

START_TEST(acknowledged_write_lost_is_a_violation)
{
    struct history_operation list[] = {
        {HISTORY_PUT, true, 7, 0, 10, 20},
        {HISTORY_EXCHANGE, true, 8, HISTORY_ABSENT, 30, 40},
    };
    ck_assert_int_eq(CHECK(list, HISTORY_ABSENT), HISTORY_VIOLATION);
}
END_TEST

TEST_SUITE(history_check)
{
    TCase *judge = tcase_create("judge");
    tcase_add_test(judge, one_after_the_other);
    tcase_add_test(judge, stale_read_is_a_violation);
    tcase_add_test(judge, overlapping_write_may_be_seen_or_not);
    tcase_add_test(judge, new_then_old_is_a_violation);
    tcase_add_test(judge, lost_update_of_add_is_a_violation);
    tcase_add_test(judge, two_winners_of_put_if_absent_is_a_violation);
    tcase_add_test(judge, put_if_present_needs_the_key);
    tcase_add_test(judge, pending_write_may_happen_late_or_never);
    tcase_add_test(judge, acknowledged_write_lost_is_a_violation);
    suite_add_tcase(suite, judge);
}
