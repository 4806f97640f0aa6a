/* Operations of a message that are refused because too much waits: those behind them are not
 * executed before them. */
#include "tests/support/one_client_worker.h"
#include "tests/support/test_suite.h"

#define REPLY_MS 10000u
#define COUNT    4u

/* The statuses of a request of these operations; its own: that of a refusal, else KV_OK. */
static enum kv_status request_statuses(const struct wire_operation operations[COUNT],
                                       enum kv_status statuses[COUNT])
{
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, COUNT), reply;
    struct read_cursor cursor;
    struct wire_result result;
    fixture_request(&fixture, &request, operations);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    for (unsigned i = 0; i < reply.count; i++) {
        ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
        statuses[i] = result.status;
    }
    ck_assert_uint_eq(reply.count, reply.status == KV_OK ? COUNT : 0);
    return reply.status;
}

static void assert_order_is_kept(void)
{
    const struct wire_operation batch[COUNT] = {
        fixture_operation(WIRE_OP_GET, "other", ""), fixture_operation(WIRE_OP_PUT, "busy", "1"),
        fixture_operation(WIRE_OP_PUT, "busy", "2"), fixture_operation(WIRE_OP_GET, "busy", "")};
    enum kv_status statuses[COUNT];
    ck_assert_int_eq(request_statuses(batch, statuses), KV_OK);
    ck_assert_int_eq(statuses[0], KV_NOT_FOUND);
    for (unsigned i = 1; i < COUNT; i++)
        ck_assert_int_eq(statuses[i], KV_OVERLOADED);
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_GET, "busy", "")).status, KV_NOT_FOUND);
    /* The client sends them again. */
    ck_assert_int_eq(request_statuses(batch, statuses), KV_OK);
    ck_assert_int_eq(statuses[1], KV_OK);
    ck_assert_int_eq(statuses[3], KV_OK);
}

START_TEST(behind_a_refused_operation_nothing_is_executed_on_its_key)
{
    assert_order_is_kept();
}
END_TEST

static unsigned closed_for; /* writes to come */

static uint32_t hold_up(void *context)
{
    (void)context;
    if (closed_for == 0)
        return 0;
    closed_for--;
    return WRITE_GATE_CLOSED;
}

static const struct write_gate gate = {.hold_up = hold_up, .sentence = "the gate is closed"};

START_TEST(behind_a_write_at_a_closed_gate_nothing_is_executed)
{
    fixture.worker.execution.gate = &gate;
    closed_for = 1;
    assert_order_is_kept();
}
END_TEST

START_TEST(what_is_behind_the_first_write_at_a_closed_gate_is_left_out)
{
    const struct wire_operation batch[COUNT] = {
        fixture_operation(WIRE_OP_PUT, "a", "1"), fixture_operation(WIRE_OP_GET, "b", ""),
        fixture_operation(WIRE_OP_PUT, "b", "1"), fixture_operation(WIRE_OP_PUT, "c", "1")};
    enum kv_status statuses[COUNT];
    fixture.worker.execution.gate = &gate;
    closed_for = 1;
    ck_assert_int_eq(request_statuses(batch, statuses), KV_OK);
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert_int_eq(statuses[i], KV_OVERLOADED);
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_GET, "b", "")).status, KV_NOT_FOUND);
    ck_assert_int_eq(request_statuses(batch, statuses), KV_OK);
    ck_assert_int_eq(statuses[0], KV_OK);
    ck_assert_int_eq(statuses[1], KV_NOT_FOUND);
    ck_assert_int_eq(statuses[3], KV_OK);
}
END_TEST

START_TEST(a_write_alone_at_a_closed_gate_counts_once)
{
    const struct wire_operation write = fixture_operation(WIRE_OP_PUT, "a", "1");
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), reply;
    struct read_cursor cursor;
    fixture.worker.execution.gate = &gate;
    closed_for = 1;
    fixture_request(&fixture, &request, &write);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_OVERLOADED);
    ck_assert_uint_eq(fixture.worker.statistics->statuses[KV_OVERLOADED], 1);
    ck_assert_uint_eq(fixture.worker.statistics->operations[WIRE_OP_PUT], 0);
}
END_TEST

TEST_SUITE(serverk_overload)
{
    TCase *submitted = tcase_create("operations that are submitted");
    late_client_case_add(submitted);
    tcase_add_test(submitted, behind_a_refused_operation_nothing_is_executed_on_its_key);
    suite_add_tcase(suite, submitted);
    TCase *gated = tcase_create("a gate");
    one_client_case_add(gated);
    tcase_add_test(gated, behind_a_write_at_a_closed_gate_nothing_is_executed);
    tcase_add_test(gated, what_is_behind_the_first_write_at_a_closed_gate_is_left_out);
    tcase_add_test(gated, a_write_alone_at_a_closed_gate_counts_once);
    suite_add_tcase(suite, gated);
}
