/* One message of a channel, without a server: what is packed, and what becomes of it. */
#include <string.h>

#include "clientk/round.h"
#include "clientk/settings.h"
#include "common/clock.h"
#include "tests/support/client_calls.h"
#include "tests/unit/suites.h"
#include "wire/queue.h"

#define TEXT(text) kv_slice_from_string(text)

static struct settings settings;
static struct connection connection;
static struct round packed;
static struct kv_error error;
static uint64_t deadline_ms;

static void make_round(void)
{
    assert_status(settings_read(&settings, NULL, &error), KV_OK);
    connection_init(&connection, &settings, wire_reply_ladder);
    connection.reply_geometry = wire_reply_ladder[0];
    connection.welcome = (struct wire_welcome){
        .max_value_bytes = 1 << 20, .lane_bytes = 4096, .bulk_bytes = 4096, .credits = 1};
    deadline_ms = clock_monotonic_coarse_ms() + settings.timeout_ms;
}

static void free_round(void)
{
    round_free(&packed);
    connection_close(&connection, false);
}

static struct request request_for(const struct clientk_operation *operations, size_t count,
                                  struct clientk_result *results)
{
    return (struct request){.operations = operations,
                            .count = count,
                            .results = results,
                            .error = &error,
                            .deadline_ms = deadline_ms};
}

static void must_pack(struct request *first)
{
    assert_status(round_pack(&packed, &connection, first, deadline_ms), KV_OK);
}

/* Who needs no message must not wait until nobody else needs one. */
START_TEST(request_that_needs_no_message_is_finished_by_packing)
{
    static const struct clientk_operation no_key = {.opcode = CLIENTK_GET};
    struct clientk_operation get = {.opcode = CLIENTK_GET, .key = TEXT("k")};
    struct clientk_result results[2] = {{.status = KV_OK}};
    struct request impossible = request_for(&no_key, 1, &results[0]);
    struct request possible = request_for(&get, 1, &results[1]);
    impossible.following = &possible;
    must_pack(&impossible);
    ck_assert(packed.in_flight);
    ck_assert(impossible.finished);
    ck_assert_int_eq(impossible.status, KV_OK);
    ck_assert_int_eq(results[0].status, KV_BAD_KEY);
    ck_assert(!possible.finished);
}
END_TEST

START_TEST(refusal_does_not_deny_what_may_have_been_executed)
{
    struct clientk_operation operations[] = {
        {.opcode = CLIENTK_PUT, .key = TEXT("a"), .value = TEXT("1")},
        {.opcode = CLIENTK_GET, .key = TEXT("b")}};
    struct clientk_result results[2] = {{.status = KV_OK}};
    struct request request = request_for(operations, 2, results);
    must_pack(&request);
    packed.exchange.delivered = true;
    round_lost(&packed, true);
    ck_assert(!request.finished);
    must_pack(&request); /* again, on the next session */
    packed.exchange.answered = true;
    packed.exchange.answer.status = KV_OVERLOADED;
    assert_status(round_complete(&packed, &connection, deadline_ms), KV_OK);
    ck_assert(request.finished);
    ck_assert_int_eq(request.status, KV_OUTCOME_UNKNOWN);
    ck_assert_int_eq(results[0].status, KV_OUTCOME_UNKNOWN);
    ck_assert_int_eq(results[1].status, KV_OVERLOADED);
}
END_TEST

Suite *suite_clientk_round(void)
{
    Suite *suite = suite_create("clientk_round");
    TCase *tcase = tcase_create("round");
    tcase_add_checked_fixture(tcase, make_round, free_round);
    tcase_add_test(tcase, request_that_needs_no_message_is_finished_by_packing);
    tcase_add_test(tcase, refusal_does_not_deny_what_may_have_been_executed);
    suite_add_tcase(suite, tcase);
    return suite;
}
