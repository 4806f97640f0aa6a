/* nats_sweep: what may be removed, and what servers tell of messages. */
#include <check.h>
#include <stdlib.h>

#include "bridges/cluster/natskv/nats_sweep.h"
#include "tests/support/test_suite.h"

#define HOUR_MS 3600000u

START_TEST(what_has_expired_goes_soon_and_a_tombstone_after_an_hour)
{
    const struct swept_message value = {.written_ms = 5000};
    const struct swept_message short_lived = {.expiry_ms = 7000, .written_ms = 5000};
    const struct swept_message for_ever = {.expiry_ms = UINT64_MAX, .written_ms = 5000};
    const struct swept_message tombstone = {.tombstone = true, .written_ms = 5000};
    ck_assert_uint_eq(nats_sweep_due_ms(&value), UINT64_MAX);
    ck_assert_uint_eq(nats_sweep_due_ms(&short_lived), 9000);
    ck_assert_uint_eq(nats_sweep_due_ms(&for_ever), UINT64_MAX);
    ck_assert_uint_eq(nats_sweep_due_ms(&tombstone), HOUR_MS + 5000);
}
END_TEST

START_TEST(places_of_messages)
{
    static const char *const bad[] = {"",
                                      "$KV.b_0.k",
                                      "$JS.ACK.KV_b_0.c.1.12.3.1700000000123456789",
                                      "$JS.ACK.d.a.KV_b_0.c.1.12.3.1700000000123456789",
                                      "$JS.ACK.KV_b_0.c.1.0.3.1700000000123456789.9",
                                      "$JS.ACK.KV_b_0.c.1.x.3.1700000000123456789.9"};
    static const char *const good[] = {
        "$JS.ACK.KV_b_0.c.1.12.3.1700000000123456789.9",
        "$JS.ACK._.a1b2c3.KV_b_0.c.1.12.3.1700000000123456789.9",
        "$JS.ACK.hub.a1b2c3.KV_b_0.c.1.12.3.1700000000123456789.9.token"};
    uint64_t sequence, written_ms;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!nats_sweep_read_ack_subject(bad[i], &sequence, &written_ms), "%s", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(nats_sweep_read_ack_subject(good[i], &sequence, &written_ms), "%s", good[i]);
        ck_assert_uint_eq(sequence, 12);
        ck_assert_uint_eq(written_ms, 1700000000123u);
    }
}
END_TEST

static void assert_time(const char *text, uint64_t expected_ms)
{
    uint64_t time_ms;
    ck_assert_msg(nats_sweep_take_time(kv_slice_from_string(text), &time_ms), "%s", text);
    ck_assert_uint_eq(time_ms, expected_ms);
}

START_TEST(times_of_servers)
{
    static const char *const bad[] = {"",
                                      "now",
                                      "2023-11-14",
                                      "2023-11-14T22:13:20",
                                      "2023-11-14T22:13:20+01:00",
                                      "1723-11-14T22:13:20Z",
                                      "2023-11-14T22:13:20.000000000000000000000000000000Z"};
    uint64_t time_ms;
    assert_time("2023-11-14T22:13:20Z", 1700000000000);
    assert_time("2023-11-14T22:13:20.5Z", 1700000000500);
    assert_time("2023-11-14T22:13:20.123456789Z", 1700000000123);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!nats_sweep_take_time(kv_slice_from_string(bad[i]), &time_ms), "%s", bad[i]);
}
END_TEST

TEST_SUITE(natskv_sweep)
{
    TCase *cases = tcase_create("sweep");
    tcase_add_test(cases, what_has_expired_goes_soon_and_a_tombstone_after_an_hour);
    tcase_add_test(cases, places_of_messages);
    tcase_add_test(cases, times_of_servers);
    suite_add_tcase(suite, cases);
}
