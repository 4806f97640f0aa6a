/* aside: what was set aside comes out in order, of each session as much as it has credits for, and
 * its event says whether there is something. */
#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serverk/receive/aside.h"
#include "tests/support/test_suite.h"

static struct aside *aside;
static struct session first = {.assignment.credits = 3}, second = {.assignment.credits = 60000};
static uint8_t buffer[8192];

static void make(void)
{
    aside = aside_create();
    ck_assert_ptr_nonnull(aside);
}

static void end(void)
{
    aside_free(aside);
}

static bool event_is_readable(void)
{
    struct pollfd event = {.fd = aside->event, .events = POLLIN};
    return poll(&event, 1, 0) == 1;
}

static bool add(const char *text, struct session *session, unsigned queue)
{
    return aside_add(aside, kv_slice_from_string(text), session, queue);
}

static void assert_next(const char *text, const struct session *session, unsigned queue)
{
    struct session *of;
    unsigned from;
    ck_assert_uint_eq(aside_take(aside, UINT32_MAX, buffer, &of, &from), strlen(text));
    ck_assert_mem_eq(buffer, text, strlen(text));
    ck_assert_ptr_eq(of, session);
    ck_assert_uint_eq(from, queue);
}

static void assert_empty(void)
{
    struct session *of;
    unsigned from;
    ck_assert_uint_eq(aside_take(aside, UINT32_MAX, buffer, &of, &from), 0);
    ck_assert_uint_eq(aside_waiting(aside), 0);
    ck_assert(!event_is_readable());
}

START_TEST(they_come_out_as_they_came)
{
    for (int round = 0; round < 2; round++) {
        assert_empty();
        ck_assert(add("one", &first, 3));
        ck_assert(add("two", &second, 4));
        ck_assert_uint_eq(aside_waiting(aside), 2);
        ck_assert(event_is_readable());
        assert_next("one", &first, 3);
        ck_assert(event_is_readable());
        ck_assert(add("three", &first, 5));
        assert_next("two", &second, 4);
        assert_next("three", &first, 5);
    }
    assert_empty();
}
END_TEST

START_TEST(a_session_has_as_many_as_credits)
{
    for (int i = 0; i < 3; i++)
        ck_assert(add("message", &first, 0));
    ck_assert(!add("message", &first, 0));
    ck_assert(add("message", &second, 0));
    assert_next("message", &first, 0);
    ck_assert(add("message", &first, 0));
    for (int i = 0; i < 2; i++)
        assert_next("message", &first, 0);
    assert_next("message", &second, 0);
    assert_next("message", &first, 0);
    assert_empty();
}
END_TEST

START_TEST(queues_that_are_left_out_wait)
{
    struct session *of;
    unsigned from;
    ck_assert(add("resting", &first, 3));
    ck_assert(add("due", &second, 4));
    ck_assert(add("resting, too", &first, 3));
    uint32_t due = ~(UINT32_C(1) << 3);
    ck_assert_uint_eq(aside_take(aside, due, buffer, &of, &from), strlen("due"));
    ck_assert_uint_eq(from, 4);
    ck_assert_uint_eq(aside_take(aside, due, buffer, &of, &from), 0);
    ck_assert_uint_eq(aside_waiting(aside), 2);
    ck_assert(add("last", &second, 4));
    assert_next("resting", &first, 3);
    assert_next("resting, too", &first, 3);
    assert_next("last", &second, 4);
    assert_empty();
}
END_TEST

START_TEST(all_of_them_are_bounded)
{
    struct session *of;
    unsigned from, count = 0;
    struct kv_slice message = kv_slice(buffer, sizeof buffer);
    while (aside_add(aside, message, &second, 0))
        count++;
    ck_assert_uint_le(count, ASIDE_MAX_BYTES / 2 / sizeof buffer);
    ck_assert_uint_gt(count, ASIDE_MAX_BYTES / 2 / sizeof buffer * 9 / 10);
    ck_assert(!aside_add(aside, message, &first, 0));
    unsigned others = 0;
    while (aside_add(aside, message, &second, LANE_PLAN_READ_LANE))
        others++;
    ck_assert_uint_gt(others, count * 4 / 10);
    ck_assert_uint_le(count + others, ASIDE_MAX_BYTES / sizeof buffer);
    for (unsigned i = 0; i < others; i++)
        ck_assert_uint_eq(aside_take(aside, UINT32_C(1) << LANE_PLAN_READ_LANE, buffer, &of, &from),
                          sizeof buffer);
    for (unsigned i = 0; i < count; i++)
        ck_assert_uint_eq(aside_take(aside, UINT32_MAX, buffer, &of, &from), sizeof buffer);
    assert_empty();
    ck_assert(aside_add(aside, message, &first, 0));
    ck_assert_uint_eq(aside_take(aside, UINT32_MAX, buffer, &of, &from), sizeof buffer);
}
END_TEST

TEST_SUITE(serverk_aside)
{
    TCase *cases = tcase_create("aside");
    tcase_add_checked_fixture(cases, make, end);
    tcase_add_test(cases, they_come_out_as_they_came);
    tcase_add_test(cases, a_session_has_as_many_as_credits);
    tcase_add_test(cases, queues_that_are_left_out_wait);
    tcase_add_test(cases, all_of_them_are_bounded);
    suite_add_tcase(suite, cases);
}
