/* lane_plan: how many lanes of which size fit what the kernel grants. */
#include <check.h>
#include <string.h>

#include "serverk/lanes/lane_plan.h"
#include "tests/support/test_suite.h"

static const struct wire_limits kernel_defaults = {
    .msg_max = 10, .msgsize_max = 8192, .queues_max = 256, .msgqueue_bytes = 819200};

START_TEST(plans_at_kernel_defaults)
{
    struct lane_plan plan = lane_plan_first(LANES_AUTO, 4, &kernel_defaults);
    ck_assert_uint_eq(plan.lanes, 8);
    ck_assert_uint_eq(plan.lane.depth, 10);
    ck_assert_uint_eq(plan.lane.message_bytes, 1024);
    ck_assert_uint_eq(plan.bulk_lanes, 2);
    ck_assert_uint_eq(plan.bulk.message_bytes, 8192);
    ck_assert_uint_eq(lane_plan_charge(&plan), 8 * 11200 + 2 * 82880);

    plan = lane_plan_first(LANES_SHARED, 4, &kernel_defaults);
    ck_assert_uint_eq(plan.lanes, 1);
    ck_assert_uint_eq(plan.bulk_lanes, 0);
    ck_assert_uint_eq(plan.lane.message_bytes, 8192);

    plan = lane_plan_first(LANES_WORKER, 3, &kernel_defaults);
    ck_assert_uint_eq(plan.lanes, 3);
    plan = lane_plan_first(LANES_WORKER, 200, &kernel_defaults);
    ck_assert_uint_le(plan.lanes, LANE_PLAN_MAX_LANES);
}
END_TEST

START_TEST(plans_leave_room_for_clients)
{
    struct wire_limits limits = kernel_defaults;
    for (limits.msgqueue_bytes = 6000; limits.msgqueue_bytes < 2000000;
         limits.msgqueue_bytes += 10007) {
        struct lane_plan plan = lane_plan_first((enum lanes_mode)_i, 16, &limits);
        bool smallest = !lane_plan_degrade(
            &(struct lane_plan){plan.lanes, plan.bulk_lanes, plan.lane, plan.bulk});
        ck_assert(smallest || lane_plan_charge(&plan) <= limits.msgqueue_bytes / 3);
        ck_assert_uint_ge(plan.lanes, 1);
        ck_assert_uint_ge(plan.lane.depth, 1);
    }
}
END_TEST

START_TEST(plans_shrink_to_an_end)
{
    struct lane_plan plan = lane_plan_first((enum lanes_mode)_i, 16, &kernel_defaults);
    uint64_t charge = lane_plan_charge(&plan);
    while (lane_plan_degrade(&plan)) {
        ck_assert_uint_lt(lane_plan_charge(&plan), charge);
        charge = lane_plan_charge(&plan);
    }
    ck_assert_uint_eq(plan.lanes, 1);
    ck_assert_uint_eq(plan.lane.depth, 1);
}
END_TEST

START_TEST(plans_are_told_in_words)
{
    char text[LANE_PLAN_TEXT_BYTES];
    struct lane_plan plan = lane_plan_first(LANES_AUTO, 4, &kernel_defaults);
    ck_assert_str_eq(lane_plan_describe(&plan, text),
                     "8 lanes of 10 x 1024 bytes, 2 bulk lanes of 10 x 8192 bytes");
    plan = lane_plan_first(LANES_SHARED, 4, &kernel_defaults);
    ck_assert_str_eq(lane_plan_describe(&plan, text), "1 lane of 10 x 8192 bytes");
}
END_TEST

START_TEST(plans_obey_smaller_messages)
{
    struct wire_limits limits = kernel_defaults;
    limits.msg_max = 3;
    limits.msgsize_max = 512;
    struct lane_plan plan = lane_plan_first(LANES_AUTO, 4, &limits);
    ck_assert_uint_eq(plan.lane.message_bytes, 512);
    ck_assert_uint_eq(plan.bulk.message_bytes, 512);
    ck_assert_uint_eq(plan.lane.depth, 3);
}
END_TEST

START_TEST(guests_take_half_of_what_is_left_each)
{
    struct lane_plan plan = lane_plan_first(LANES_AUTO, 4, &kernel_defaults);
    uint64_t left = kernel_defaults.msgqueue_bytes / LANE_PLAN_GUEST_SHARES;
    struct wire_geometry first = lane_plan_guest(&plan, left);
    ck_assert_uint_eq(first.depth, 6);
    ck_assert_uint_eq(first.message_bytes, 8192);
    unsigned guests = 0;
    for (struct wire_geometry next; (next = lane_plan_guest(&plan, left)).depth > 0; guests++) {
        ck_assert_uint_le(wire_geometry_charge(next), left);
        ck_assert_uint_ge(next.message_bytes, 1024);
        left -= wire_geometry_charge(next);
    }
    ck_assert_uint_ge(guests, 8);
    ck_assert_uint_eq(lane_plan_guest(&plan, 1000).depth, 0);
}
END_TEST

TEST_SUITE(serverk_lane_plan)
{
    TCase *plan = tcase_create("plan");
    tcase_add_test(plan, plans_at_kernel_defaults);
    tcase_add_loop_test(plan, plans_leave_room_for_clients, LANES_AUTO, LANES_SHARED + 1);
    tcase_add_loop_test(plan, plans_shrink_to_an_end, LANES_AUTO, LANES_SHARED + 1);
    tcase_add_test(plan, plans_are_told_in_words);
    tcase_add_test(plan, plans_obey_smaller_messages);
    tcase_add_test(plan, guests_take_half_of_what_is_left_each);
    suite_add_tcase(suite, plan);
}
