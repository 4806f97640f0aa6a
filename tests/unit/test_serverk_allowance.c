/* allowance: what a message may do before others get their turn, and what becomes of its rest. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "serverk/execute/allowance.h"
#include "tests/support/one_client_worker.h"
#include "tests/support/test_suite.h"

#define COUNT 20u

static struct wire_result results[COUNT];

/* Request and reply of these operations; values lie in only_client.message. */
static void call_all(const struct wire_header *request, const struct wire_operation *operations)
{
    struct wire_header reply;
    struct read_cursor cursor;
    fixture_request(&fixture, request, operations);
    ck_assert(fixture_reply(&only_client, 5000, &reply, &cursor));
    ck_assert_int_eq(reply.kind, WIRE_REPLY);
    ck_assert_int_eq(reply.status, KV_OK);
    ck_assert_uint_eq(reply.count, request->count);
    for (unsigned i = 0; i < request->count; i++)
        ck_assert_int_eq(wire_get_result(&cursor, &results[i]), KV_OK);
}

static void call_batch(const struct wire_operation *operations, uint16_t count)
{
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, count);
    call_all(&request, operations);
}

static struct wire_operation add_to(const char *key)
{
    struct wire_operation add = fixture_operation(WIRE_OP_ADD, key, "");
    add.flags = WIRE_CREATE;
    add.delta = 1;
    return add;
}

START_TEST(without_time_only_the_first_is_executed)
{
    fixture.worker.execution.message_ms = 0;
    struct wire_operation operations[] = {
        add_to("n"), add_to("n"), fixture_operation(WIRE_OP_GET, "n", ""),
        fixture_operation(WIRE_OP_SCAN, "", ""), fixture_operation(WIRE_OP_SCAN, "", "")};
    operations[4].cursor = UINT64_C(1) << 40;
    call_batch(operations, 5);
    ck_assert_int_eq(results[0].status, KV_OK);
    ck_assert_int_eq(results[0].number, 1);
    for (unsigned i = 1; i < 4; i++)
        ck_assert_int_eq(results[i].status, KV_OVERLOADED);
    ck_assert_int_eq(results[4].status, KV_OK); /* a page without entries, to go on from there */
    ck_assert_uint_eq(results[4].value.size, 0);
    ck_assert_int_eq(results[4].number, INT64_C(1) << 40);
    call_batch(operations, 1);
    ck_assert_int_eq(results[0].number, 2);
}
END_TEST

START_TEST(small_operations_are_executed_some_at_a_time)
{
    fixture.worker.execution.message_ms = 0;
    struct wire_operation operations[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        operations[i] = fixture_operation(WIRE_OP_PUT, "k", "v");
    call_batch(operations, COUNT);
    unsigned done = 0;
    while (done < COUNT && results[done].status == KV_OK)
        done++;
    ck_assert_uint_ge(done, 1);
    ck_assert_uint_le(done, ALLOWANCE_LIGHT_OPERATIONS);
    for (unsigned i = done; i < COUNT; i++)
        ck_assert_int_eq(results[i].status, KV_OVERLOADED);
}
END_TEST

START_TEST(with_time_all_are_executed)
{
    struct wire_operation operations[COUNT];
    fixture.worker.execution.message_ms = 60000;
    for (unsigned i = 0; i < COUNT; i++)
        operations[i] = add_to("n");
    call_batch(operations, COUNT);
    ck_assert_int_eq(results[COUNT - 1].status, KV_OK);
    ck_assert_int_eq(results[COUNT - 1].number, COUNT);
}
END_TEST

/* Each append writes all of the value: 78 KiB of message could write gigabytes. */
START_TEST(what_a_message_makes_the_store_write_is_bounded)
{
    char large[90001];
    struct wire_operation operations[COUNT];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    ck_assert_int_eq(kvstore_put(fixture.service.store, kv_slice_from_string("large"),
                                 kv_slice(large, sizeof large - 1), NULL, NULL),
                     KV_OK);
    fixture.worker.execution.message_ms = 60000;
    struct allowance allowance = {.write_bytes_left = 100};
    allowance_note(&allowance, true, 60);
    ck_assert_uint_eq(allowance.write_bytes_left, 40);
    allowance_note(&allowance, true, 60);
    ck_assert_uint_eq(allowance.write_bytes_left, 0);
    for (unsigned i = 0; i < COUNT; i++)
        operations[i] = fixture_operation(WIRE_OP_APPEND, "large", "y");
    call_batch(operations, COUNT); /* 2 MB: within */
    ck_assert_int_eq(results[COUNT - 1].status, KV_OK);
    ck_assert_int_eq(results[COUNT - 1].number, 90000 + (int)COUNT);
}
END_TEST

START_TEST(values_that_come_with_a_message_are_its_own)
{
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_put(fixture.service.store, kv_slice_from_string("key"),
                                 kv_slice_from_string("value"), NULL, &written),
                     KV_OK);
    ck_assert_uint_ge(written.record_bytes, 8);
    ck_assert_uint_le(written.record_bytes, 64);
    ck_assert_int_eq(kvstore_append(fixture.service.store, kv_slice_from_string("key"),
                                    kv_slice_from_string("more"), NULL, &written),
                     KV_OK);
    ck_assert_uint_ge(written.record_bytes, 12);
}
END_TEST

/* The deadline passes while the message is executed. */
START_TEST(behind_the_deadline_nothing_is_executed)
{
    struct allowance allowance;
    struct wire_header request = {.deadline_ms = clock_monotonic_coarse_ms() + 60000};
    allowance_begin(&allowance, only_client.session, &request, clock_monotonic_ns(), 60000);
    ck_assert_int_eq(allowance_look(&allowance), KV_OK);
    allowance.deadline_ms = 1;
    ck_assert_int_eq(allowance_look(&allowance), KV_DEADLINE);
    allowance.deadline_ms = 0;
    ck_assert_int_eq(allowance_look(&allowance), KV_DEADLINE); /* for good */
}
END_TEST

START_TEST(a_client_that_died_is_not_served_further)
{
    struct allowance allowance;
    struct wire_header request = {.deadline_ms = 0};
    allowance_begin(&allowance, only_client.session, &request, clock_monotonic_ns(), 60000);
    ck_assert_int_eq(allowance_look(&allowance), KV_OK);
    session_end(fixture.service.sessions, only_client.session, _i ? SESSION_DIED : SESSION_BYE);
    ck_assert_int_eq(allowance_look(&allowance), _i ? KV_OVERLOADED : KV_OK);
}
END_TEST

/* 20,000 entries, none of which matches, with no time: a page looks at some thousand, and says
 * where to go on. */
START_TEST(a_scan_that_matches_nothing_ends_its_pages)
{
    char key[16];
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(kvstore_put(fixture.service.store, kv_slice_from_string(key),
                                     kv_slice_from_string("v"), NULL, NULL),
                         KV_OK);
    }
    fixture.worker.execution.message_ms = 0;
    struct wire_operation scan = fixture_operation(WIRE_OP_SCAN, "none", "");
    scan.limit = 4096;
    unsigned pages = 0;
    do {
        struct wire_result page = call(scan);
        ck_assert_int_eq(page.status, KV_OK);
        ck_assert_uint_eq(page.value.size, 0);
        ck_assert_uint_ne((uint64_t)page.number, scan.cursor);
        scan.cursor = (uint64_t)page.number;
        pages++;
    } while (scan.cursor != 0);
    ck_assert_uint_ge(pages, 2);
    ck_assert_uint_le(pages, 20000 / 4096);
}
END_TEST

/* A SYNC behind a SYNC has nothing to look for. What it waits for is the same. */
START_TEST(two_syncs_wait_for_what_was_written)
{
    struct wire_operation operations[] = {
        fixture_operation(WIRE_OP_SYNC, "", ""), fixture_operation(WIRE_OP_PUT, "k", "v"),
        fixture_operation(WIRE_OP_SYNC, "", ""), fixture_operation(WIRE_OP_SYNC, "", "")};
    call_batch(operations, 4);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(results[i].status, KV_OK);
    struct kvstore *store = fixture.service.store;
    for (uint32_t file = 0; file < kvstore_datafiles(store); file++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(store, file, &statistics);
        ck_assert_uint_eq(statistics.synced_bytes, statistics.appended_bytes);
    }
}
END_TEST

TEST_SUITE(serverk_allowance)
{
    TCase *cases = tcase_create("allowance");
    one_client_case_add(cases);
    tcase_add_test(cases, without_time_only_the_first_is_executed);
    tcase_add_test(cases, small_operations_are_executed_some_at_a_time);
    tcase_add_test(cases, with_time_all_are_executed);
    tcase_add_test(cases, what_a_message_makes_the_store_write_is_bounded);
    tcase_add_test(cases, values_that_come_with_a_message_are_its_own);
    tcase_add_test(cases, behind_the_deadline_nothing_is_executed);
    tcase_add_loop_test(cases, a_client_that_died_is_not_served_further, false, true + 1);
    tcase_add_test(cases, a_scan_that_matches_nothing_ends_its_pages);
    tcase_add_test(cases, two_syncs_wait_for_what_was_written);
    suite_add_tcase(suite, cases);
}
