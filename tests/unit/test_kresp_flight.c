/* Batches that are under way while the thread does something else. */
#include <signal.h>
#include <stdio.h>

#include "bridges/kresp/session/redis_store.h"
#include "bridges/kresp/session/store_flight.h"
#include "tests/support/client_calls.h"
#include "tests/support/live_server.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)
#define TIMEOUT_MS 500u
#define MOST       300u /* more than a message holds */

static struct live_server server;
static struct store_flight flight;
static struct clientk_operation operations[MOST];
static struct clientk_result results[MOST];

static void start(void)
{
    struct kv_error error = {.text = ""};
    live_server_start(&server, NULL, NULL);
    flight = (struct store_flight){.store = NULL};
    ck_assert_msg(redis_store_open(server.queue, TIMEOUT_MS, &flight.store, &error) == KV_OK, "%s",
                  error.text);
}

static void end(void)
{
    store_flight_free(&flight);
    redis_store_close(flight.store);
    live_server_remove(&server);
    for (size_t i = 0; i < MOST; i++)
        clientk_value_free(&results[i].value);
}

static void plan_adds(size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        operations[i] =
            (struct clientk_operation){.opcode = CLIENTK_ADD, .key = TEXT(key), .delta = 1};
}

/* Gives the flight its pipeline. */
static void fly_first(void)
{
    plan_adds(1, "first");
    ck_assert(!store_flight_begin(&flight, operations, 1, results));
    assert_status(results[0].status, KV_OK);
    ck_assert_ptr_nonnull(flight.pipeline);
}

START_TEST(writes_are_under_way_until_the_end)
{
    fly_first();
    live_server_signal(&server, SIGSTOP);
    plan_adds(3, "key");
    ck_assert(store_flight_begin(&flight, operations, 3, results));
    live_server_signal(&server, SIGCONT);
    store_flight_end(&flight);
    for (int i = 0; i < 3; i++) {
        assert_status(results[i].status, KV_OK);
        ck_assert_int_eq(results[i].number, i + 1);
    }
    store_flight_end(&flight);
}
END_TEST

START_TEST(results_come_in_order_from_several_messages)
{
    static char value[100];
    fly_first();
    plan_adds(MOST, "key");
    for (size_t i = 0; i < MOST; i += 2) {
        operations[i].opcode = CLIENTK_APPEND;
        operations[i].key = TEXT("text");
        operations[i].value = kv_slice(value, sizeof value);
    }
    ck_assert(store_flight_begin(&flight, operations, MOST, results));
    store_flight_end(&flight);
    for (int i = 0; i < (int)MOST; i++) {
        assert_status(results[i].status, KV_OK);
        ck_assert_int_eq(results[i].number, i % 2 == 0 ? (i / 2 + 1) * 100 : i / 2 + 1);
    }
}
END_TEST

START_TEST(reads_and_large_values_do_not_fly)
{
    static char value[70000];
    fly_first();
    plan_adds(2, "key");
    operations[1] = (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("key")};
    ck_assert(!store_flight_begin(&flight, operations, 2, results));
    ck_assert_uint_eq(results[1].value.size, 1);
    operations[0] = (struct clientk_operation){
        .opcode = CLIENTK_PUT, .key = TEXT("large"), .value = kv_slice(value, sizeof value)};
    ck_assert(!store_flight_begin(&flight, operations, 1, results));
    assert_status(results[0].status, KV_OK);
    store_flight_end(&flight);
}
END_TEST

START_TEST(a_refused_operation_stops_no_other)
{
    fly_first();
    plan_adds(3, "key");
    operations[1].key = kv_slice(NULL, 0);
    ck_assert(store_flight_begin(&flight, operations, 3, results));
    store_flight_end(&flight);
    assert_status(results[0].status, KV_OK);
    assert_status(results[1].status, KV_BAD_KEY);
    assert_status(results[2].status, KV_OK);
    ck_assert_int_eq(results[2].number, 2);
}
END_TEST

START_TEST(every_operation_has_its_status_when_the_server_is_gone)
{
    fly_first();
    live_server_signal(&server, SIGSTOP);
    plan_adds(2, "key");
    ck_assert(store_flight_begin(&flight, operations, 2, results));
    live_server_signal(&server, SIGKILL);
    store_flight_end(&flight);
    assert_status(results[0].status, KV_OUTCOME_UNKNOWN);
    assert_status(results[1].status, KV_OUTCOME_UNKNOWN);
    plan_adds(MOST, "key");
    if (store_flight_begin(&flight, operations, MOST, results))
        store_flight_end(&flight);
    for (size_t i = 0; i < MOST; i++)
        ck_assert(results[i].status == KV_NO_SERVER || results[i].status == KV_DEADLINE);
    live_server_restart(&server, NULL, NULL);
    plan_adds(1, "later");
    if (store_flight_begin(&flight, operations, 1, results))
        store_flight_end(&flight);
    assert_status(results[0].status, KV_OK);
    ck_assert_int_eq(results[0].number, 1);
}
END_TEST

START_TEST(a_server_that_stands_still_is_not_waited_for)
{
    fly_first();
    live_server_signal(&server, SIGSTOP);
    plan_adds(1, "key");
    ck_assert(store_flight_begin(&flight, operations, 1, results));
    store_flight_end(&flight);
    assert_status(results[0].status, KV_TIMEOUT);
    live_server_signal(&server, SIGCONT);
    if (store_flight_begin(&flight, operations, 1, results))
        store_flight_end(&flight);
    assert_status(results[0].status, KV_OK);
    ck_assert(results[0].number == 1 || results[0].number == 2); /* it may be executed late */
}
END_TEST

TEST_SUITE(kresp_flight)
{
    TCase *tcase = tcase_create("flight");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, writes_are_under_way_until_the_end);
    tcase_add_test(tcase, results_come_in_order_from_several_messages);
    tcase_add_test(tcase, reads_and_large_values_do_not_fly);
    tcase_add_test(tcase, a_refused_operation_stops_no_other);
    tcase_add_test(tcase, every_operation_has_its_status_when_the_server_is_gone);
    tcase_add_test(tcase, a_server_that_stands_still_is_not_waited_for);
    suite_add_tcase(suite, tcase);
}
