/* cost_estimate: what a message is expected to cost, from its kinds, counts and sizes. */
#include <check.h>

#include "lab/schedule/cost_estimate.h"
#include "tests/support/test_suite.h"
#include "wire/message.h"
#include "wire/operation.h"

static uint8_t bytes[16384];

static struct wire_operation get_of(const char *key)
{
    return (struct wire_operation){.opcode = WIRE_OP_GET, .key = kv_slice_from_string(key)};
}

/* A request of `count` times the operation; `claimed` is what the header says. */
static uint64_t work_of(struct wire_operation operation, uint16_t count, uint16_t claimed)
{
    struct write_cursor cursor = write_cursor(bytes, sizeof bytes);
    struct wire_header header = {.kind = WIRE_REQUEST, .session = 1, .count = claimed};
    wire_put_header(&cursor, &header);
    for (unsigned i = 0; i < count; i++)
        ck_assert(wire_put_operation(&cursor, &operation));
    return cost_estimate_ns(kv_slice(bytes, write_cursor_used(&cursor)));
}

static uint64_t work_of_kind(enum wire_kind kind)
{
    struct write_cursor cursor = write_cursor(bytes, sizeof bytes);
    struct wire_header header = {.kind = kind, .session = 1};
    wire_put_header(&cursor, &header);
    return cost_estimate_ns(kv_slice(bytes, write_cursor_used(&cursor)));
}

START_TEST(more_operations_are_more_work)
{
    uint64_t one = work_of(get_of("a"), 1, 1), eight = work_of(get_of("a"), 8, 8),
             hundred = work_of(get_of("a"), 100, 100);
    ck_assert_uint_lt(one, eight);
    ck_assert_uint_eq((eight - one) / 7, (hundred - eight) / 92);
}
END_TEST

START_TEST(larger_values_are_more_work)
{
    static const uint8_t value[8000];
    struct wire_operation put = {.opcode = WIRE_OP_PUT, .key = kv_slice_from_string("a")};
    uint64_t empty = work_of(put, 1, 1);
    put.value = kv_slice(value, sizeof value);
    ck_assert_uint_gt(work_of(put, 1, 1), empty);
}
END_TEST

START_TEST(scans_count_as_far_as_they_go)
{
    struct wire_operation scan = {.opcode = WIRE_OP_SCAN, .limit = 10};
    uint64_t ten = work_of(scan, 1, 1);
    scan.limit = 1000;
    uint64_t thousand = work_of(scan, 1, 1);
    ck_assert_uint_gt(ten, work_of(get_of("a"), 1, 1));
    ck_assert_uint_gt(thousand, 10 * ten);
    scan.limit = 0;
    ck_assert_uint_eq(work_of(scan, 1, 1), thousand);
    scan.limit = 10;
    scan.key = kv_slice_from_string("prefix");
    ck_assert_uint_gt(work_of(scan, 1, 1), thousand);
}
END_TEST

START_TEST(every_operation_costs_something)
{
    for (unsigned opcode = WIRE_OP_GET; opcode < WIRE_OPCODES; opcode++) {
        bool no_key =
            opcode == WIRE_OP_PING || opcode == WIRE_OP_SYNC || opcode == WIRE_OP_TRANSACT;
        struct wire_operation operation = {.opcode = (enum wire_opcode)opcode,
                                           .key = no_key ? kv_slice(NULL, 0)
                                                         : kv_slice_from_string("a")};
        ck_assert_uint_gt(work_of(operation, 1, 1), work_of_kind(WIRE_MORE));
    }
}
END_TEST

START_TEST(what_is_malformed_is_refused_quickly)
{
    uint64_t message = work_of_kind(WIRE_MORE);
    ck_assert_uint_gt(message, 0);
    ck_assert_uint_eq(cost_estimate_ns(kv_slice(bytes, 0)), message);
    ck_assert_uint_eq(cost_estimate_ns(kv_slice(bytes, 10)), message);
    ck_assert_uint_eq(work_of(get_of("a"), 1, 0), message);
    ck_assert_uint_eq(work_of(get_of("a"), 0, 1), message);
    uint64_t one = work_of(get_of("a"), 1, 1);
    ck_assert_uint_eq(work_of(get_of("a"), 1, 4096), one); /* the others are not there */
}
END_TEST

START_TEST(bye_is_never_early)
{
    ck_assert_uint_eq(work_of_kind(WIRE_BYE), UINT64_MAX);
}
END_TEST

TEST_SUITE(lab_cost_estimate)
{
    TCase *cases = tcase_create("estimates");
    tcase_add_test(cases, more_operations_are_more_work);
    tcase_add_test(cases, larger_values_are_more_work);
    tcase_add_test(cases, scans_count_as_far_as_they_go);
    tcase_add_test(cases, every_operation_costs_something);
    tcase_add_test(cases, what_is_malformed_is_refused_quickly);
    tcase_add_test(cases, bye_is_never_early);
    suite_add_tcase(suite, cases);
}
