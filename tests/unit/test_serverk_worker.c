/* worker and execute: requests against a real store, as bytes in and bytes out. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "tests/support/one_client_worker.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

/* A reply that comes at all comes in this time. */
#define REPLY_MS 20000u

static struct wire_result put(const char *key, const char *value)
{
    return call(fixture_operation(WIRE_OP_PUT, key, value));
}

static void assert_value(struct wire_result result, const char *value)
{
    ck_assert_int_eq(result.status, KV_OK);
    ck_assert_uint_eq(result.value.size, strlen(value));
    ck_assert_mem_eq(result.value.data, value, strlen(value));
}

START_TEST(put_get_delete)
{
    struct wire_result written = put("name", "Ada");
    ck_assert_int_eq(written.status, KV_OK);
    ck_assert_uint_ge(written.version, 1);
    struct wire_result got = call(fixture_operation(WIRE_OP_GET, "name", ""));
    assert_value(got, "Ada");
    ck_assert_uint_eq(got.version, written.version);
    ck_assert(!(got.flags & WIRE_RESULT_HAS_EXPIRY));
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_DELETE, "name", "")).status, KV_OK);
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_GET, "name", "")).status, KV_NOT_FOUND);
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_DELETE, "name", "")).status, KV_NOT_FOUND);
}
END_TEST

START_TEST(conditions)
{
    struct wire_operation absent = fixture_operation(WIRE_OP_PUT, "k", "1");
    absent.flags = WIRE_IF_ABSENT;
    uint64_t version = call(absent).version;
    ck_assert_int_eq(call(absent).status, KV_EXISTS);
    struct wire_operation swap = fixture_operation(WIRE_OP_PUT, "k", "2");
    swap.flags = WIRE_HAS_VERSION;
    swap.version = version;
    ck_assert_int_eq(call(swap).status, KV_OK);
    ck_assert_int_eq(call(swap).status, KV_VERSION_MISMATCH);
    struct wire_operation present = fixture_operation(WIRE_OP_PUT, "none", "1");
    present.flags = WIRE_IF_PRESENT;
    ck_assert_int_eq(call(present).status, KV_NOT_FOUND);
    struct wire_operation delete = fixture_operation(WIRE_OP_DELETE, "k", "");
    delete.flags = WIRE_HAS_VERSION;
    delete.version = version;
    ck_assert_int_eq(call(delete).status, KV_VERSION_MISMATCH);
}
END_TEST

START_TEST(expiry_exists_and_touch)
{
    uint64_t later_ms = clock_realtime_ms() + 3600000;
    struct wire_operation lasting = fixture_operation(WIRE_OP_PUT, "k", "value");
    lasting.flags = WIRE_HAS_EXPIRY;
    lasting.expiry_ms = later_ms;
    call(lasting);
    struct wire_result got = call(fixture_operation(WIRE_OP_GET, "k", ""));
    assert_value(got, "value");
    ck_assert_uint_eq(got.expiry_ms, later_ms);
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_TOUCH, "k", "")).status, KV_OK);
    struct wire_result facts = call(fixture_operation(WIRE_OP_EXISTS, "k", ""));
    ck_assert_int_eq(facts.status, KV_OK);
    ck_assert_uint_eq(facts.expiry_ms, 0);
    ck_assert_uint_eq(facts.value.size, 5);
    ck_assert(facts.flags & WIRE_RESULT_NO_VALUE);
    struct wire_operation gone = fixture_operation(WIRE_OP_TOUCH, "k", "");
    gone.flags = WIRE_HAS_EXPIRY;
    gone.expiry_ms = 1;
    call(gone);
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_EXISTS, "k", "")).status, KV_NOT_FOUND);
}
END_TEST

START_TEST(add_append_exchange)
{
    struct wire_operation add = fixture_operation(WIRE_OP_ADD, "n", "");
    add.delta = 5;
    ck_assert_int_eq(call(add).status, KV_NOT_FOUND);
    add.flags = WIRE_CREATE | WIRE_HAS_BOUNDS;
    add.initial = 10;
    add.min = 0;
    add.max = 16;
    ck_assert_int_eq(call(add).number, 15);
    struct wire_result refused = call(add);
    ck_assert_int_eq(refused.status, KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(refused.number, 15);

    ck_assert_int_eq(call(fixture_operation(WIRE_OP_APPEND, "n", "0")).number, 3);
    struct wire_result old = call(fixture_operation(WIRE_OP_EXCHANGE, "n", "text"));
    assert_value(old, "150");
    ck_assert(old.flags & WIRE_RESULT_FOUND);
    add.flags = 0;
    add.min = INT64_MIN;
    add.max = INT64_MAX;
    ck_assert_int_eq(call(add).status, KV_NOT_A_NUMBER);
    struct wire_result first = call(fixture_operation(WIRE_OP_EXCHANGE, "new", "value"));
    assert_value(first, "");
    ck_assert(!(first.flags & WIRE_RESULT_FOUND));
}
END_TEST

START_TEST(scan_page_by_page)
{
    char key[16];
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "scan%03d", i);
        put(key, "0123456789");
    }
    put("other", "x");
    bool seen[200] = {false};
    int count = 0, pages = 0;
    struct wire_operation scan = fixture_operation(WIRE_OP_SCAN, "scan", "");
    do {
        struct wire_result page = call(scan);
        ck_assert_int_eq(page.status, KV_OK);
        struct read_cursor entries = read_cursor(page.value.data, page.value.size);
        while (read_cursor_left(&entries) > 0) {
            struct wire_scan_entry entry;
            ck_assert_int_eq(wire_get_scan_entry(&entries, &entry), KV_OK);
            ck_assert_uint_eq(entry.value.size, 10);
            ck_assert_uint_eq(entry.key.size, 7);
            char digits[4] = "";
            memcpy(digits, (const char *)entry.key.data + 4, 3);
            int number = atoi(digits);
            ck_assert(!seen[number]);
            seen[number] = true;
            count++;
        }
        scan.cursor = (uint64_t)page.number;
        pages++;
    } while (scan.cursor != 0);
    ck_assert_int_eq(count, 200);
    ck_assert_int_gt(pages, 3); /* messages of 1024 bytes */
    scan.cursor = 0;
    scan.flags = WIRE_KEYS_ONLY;
    struct wire_result keys = call(scan);
    struct read_cursor entries = read_cursor(keys.value.data, keys.value.size);
    struct wire_scan_entry entry;
    ck_assert_int_eq(wire_get_scan_entry(&entries, &entry), KV_OK);
    ck_assert_uint_eq(entry.value.size, 0);
}
END_TEST

static unsigned count_entries(struct wire_result page)
{
    struct read_cursor entries = read_cursor(page.value.data, page.value.size);
    struct wire_scan_entry entry;
    unsigned count = 0;
    for (; read_cursor_left(&entries) > 0; count++)
        ck_assert_int_eq(wire_get_scan_entry(&entries, &entry), KV_OK);
    return count;
}

START_TEST(an_atomic_page_ends_between_data_files)
{
    char key[16];
    for (int i = 0; i < 42; i++) { /* about 14 a file; a message holds 30 */
        snprintf(key, sizeof key, "scan%03d", i);
        put(key, "0123456789");
    }
    struct wire_operation scan = fixture_operation(WIRE_OP_SCAN, "scan", "");
    scan.flags = WIRE_ATOMIC;
    unsigned count = 0, pages = 0;
    do {
        struct wire_result page = call(scan);
        ck_assert_int_eq(page.status, KV_OK);
        count += count_entries(page);
        pages++;
        scan.cursor = (uint64_t)page.number;
        ck_assert_uint_eq(scan.cursor << 12, 0);
    } while (scan.cursor != 0);
    ck_assert_uint_eq(count, 42);
    ck_assert_uint_gt(pages, 1);
    scan.cursor = 1;
    ck_assert_int_eq(call(scan).status, KV_BAD_REQUEST);
}
END_TEST

START_TEST(ping_echoes)
{
    assert_value(call(fixture_operation(WIRE_OP_PING, "", "echo")), "echo");
    assert_value(call(fixture_operation(WIRE_OP_PING, "", "")), "");
}
END_TEST

/* Batches and bad operations ------------------------------------------------------------------- */

START_TEST(a_batch_answers_each_in_order)
{
    struct wire_operation batch[] = {
        fixture_operation(WIRE_OP_PUT, "a", "1"), fixture_operation(WIRE_OP_GET, "a", ""),
        fixture_operation(WIRE_OP_GET, "b", ""), fixture_operation(WIRE_OP_DELETE, "a", "")};
    const enum kv_status expected[] = {KV_OK, KV_OK, KV_NOT_FOUND, KV_OK};
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 4), reply;
    struct read_cursor cursor;
    fixture_request(&fixture, &request, batch);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    ck_assert_uint_eq(reply.count, 4);
    for (int i = 0; i < 4; i++) {
        struct wire_result result;
        ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
        ck_assert_int_eq(result.status, expected[i]);
    }
}
END_TEST

/* Handles a request whose count is one more than the operations in it. */
static struct wire_header request_cut_short(uint16_t operations, struct read_cursor *cursor)
{
    uint8_t message[FIXTURE_MESSAGE_BYTES];
    struct write_cursor write = write_cursor(message, sizeof message);
    struct wire_header header = fixture_header(&only_client, WIRE_REQUEST, operations + 1), reply;
    wire_put_header(&write, &header);
    struct wire_operation first = fixture_operation(WIRE_OP_PUT, "kept", "1");
    for (unsigned i = 0; i < operations; i++)
        wire_put_operation(&write, &first);
    fixture_handle(&fixture, message, write_cursor_used(&write));
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, cursor));
    return reply;
}

START_TEST(a_malformed_first_operation_fails_the_message)
{
    struct read_cursor cursor;
    struct wire_header reply = request_cut_short(0, &cursor);
    ck_assert_int_eq(reply.status, KV_BAD_REQUEST);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_uint_gt(read_cursor_left(&cursor), 10);
}
END_TEST

START_TEST(a_malformed_later_operation_fails_alone)
{
    struct read_cursor cursor;
    struct wire_result result;
    struct wire_header reply = request_cut_short(2, &cursor);
    ck_assert_int_eq(reply.status, KV_OK);
    ck_assert_uint_eq(reply.count, 3);
    ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
    ck_assert_int_eq(result.status, KV_OK);
    ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
    ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
    ck_assert_int_eq(result.status, KV_BAD_REQUEST);
    assert_value(call(fixture_operation(WIRE_OP_GET, "kept", "")), "1");
}
END_TEST

START_TEST(a_deadline_in_the_past_executes_nothing)
{
    struct wire_operation write = fixture_operation(WIRE_OP_PUT, "late", "1");
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), reply;
    struct read_cursor cursor;
    request.deadline_ms = clock_monotonic_coarse_ms() - 1;
    fixture_request(&fixture, &request, &write);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_DEADLINE);
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_GET, "late", "")).status, KV_NOT_FOUND);
    request = fixture_header(&only_client, WIRE_REQUEST, 1);
    request.deadline_ms = clock_monotonic_coarse_ms() + 60000;
    fixture_request(&fixture, &request, &write);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_OK);
}
END_TEST

static struct session_counts counts_of_sessions(void)
{
    struct session_counts counts;
    session_counts(fixture.service.sessions, &counts);
    return counts;
}

/* Its process ended, and that was seen before its BYE was taken from the lane. */
START_TEST(a_bye_behind_its_process_is_a_bye)
{
    struct fixture_client late;
    fixture_connect(&fixture, &late, (struct wire_geometry){4, 1024});
    struct wire_header bye = fixture_header(&late, WIRE_BYE, 0), forged = bye;
    forged.secret++;
    session_end(fixture.service.sessions, late.session, SESSION_DIED);
    ck_assert_uint_eq(counts_of_sessions().ended[SESSION_DIED], 1);
    fixture_disconnect(&fixture, &late);
    fixture_request(&fixture, &forged, NULL);
    ck_assert_uint_eq(counts_of_sessions().ended[SESSION_DIED], 1);
    for (int i = 0; i < 2; i++) { /* the second is nobody's */
        fixture_request(&fixture, &bye, NULL);
        ck_assert_uint_eq(counts_of_sessions().ended[SESSION_DIED], 0);
        ck_assert_uint_eq(counts_of_sessions().ended[SESSION_BYE], 1);
    }
}
END_TEST

START_TEST(strangers_get_no_answer)
{
    struct wire_operation ping = fixture_operation(WIRE_OP_PING, "", "");
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), reply;
    struct read_cursor cursor;
    request.secret++;
    fixture_request(&fixture, &request, &ping);
    request.secret--;
    request.session += 1u << 12;
    fixture_request(&fixture, &request, &ping);
    fixture_handle(&fixture, "noise", 5);
    fixture_handle(&fixture, NULL, 0);
    ck_assert(!fixture_reply(&only_client, 0, &reply, &cursor));
    ck_assert_uint_eq(fixture.worker.statistics->dropped[DROPPED_UNKNOWN_SESSION], 2);
    ck_assert_uint_eq(fixture.worker.statistics->dropped[DROPPED_MALFORMED], 2);
}
END_TEST

/* Short replies -------------------------------------------------------------------------------- */

#define MANY 20u

/* Sends so many operations that may be stopped; returns how many results came. */
static unsigned call_stoppable(const struct wire_operation *operations, unsigned count,
                               struct wire_result *results)
{
    struct wire_header reply, header = fixture_header(&only_client, WIRE_REQUEST, (uint16_t)count);
    struct read_cursor cursor;
    header.flags = WIRE_REQUEST_MAY_STOP;
    fixture_request(&fixture, &header, operations);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    ck_assert_int_eq(reply.kind, WIRE_REPLY);
    ck_assert_int_eq(reply.status, KV_OK);
    for (unsigned i = 0; i < reply.count; i++)
        ck_assert_int_eq(wire_get_result(&cursor, &results[i]), KV_OK);
    return reply.count;
}

/* The counter is added to in between: what was not answered must not have been executed. */
START_TEST(reply_stops_before_what_does_not_fit)
{
    char value[701];
    memset(value, 'v', 700);
    value[700] = '\0';
    put("big", value);
    struct wire_operation operations[MANY];
    struct wire_result results[MANY];
    for (unsigned i = 0; i < MANY; i += 2) {
        operations[i] = fixture_operation(WIRE_OP_ADD, "counter", "");
        operations[i].flags = WIRE_CREATE;
        operations[i].delta = 1;
        operations[i + 1] = fixture_operation(WIRE_OP_GET, "big", "");
    }
    unsigned done = 0, messages = 0;
    while (done < MANY) {
        unsigned more = call_stoppable(operations + done, MANY - done, results + done);
        ck_assert_uint_ge(more, 1);
        for (unsigned i = done; i < done + more; i++)
            ck_assert_int_eq(results[i].status, KV_OK);
        done += more;
        messages++;
    }
    ck_assert_uint_gt(messages, 1);
    char sum[8];
    snprintf(sum, sizeof sum, "%u", MANY / 2);
    assert_value(call(fixture_operation(WIRE_OP_GET, "counter", "")), sum);
}
END_TEST

/* What is submitted ---------------------------------------------------------------------------- */

#define KEYS  5u
#define ROUND 8u

/* Operations on different keys are executed in any order there. */
START_TEST(a_batch_keeps_the_order_of_each_key)
{
    struct wire_operation batch[KEYS * ROUND];
    char keys[KEYS][2];
    for (unsigned i = 0; i < KEYS * ROUND; i++) {
        unsigned key = i % KEYS, step = i / KEYS;
        snprintf(keys[key], sizeof keys[key], "%u", key);
        enum wire_opcode opcode = step == ROUND - 2   ? WIRE_OP_GET
                                  : step == ROUND - 1 ? WIRE_OP_DELETE
                                                      : WIRE_OP_ADD;
        batch[i] = fixture_operation(opcode, keys[key], "");
        if (opcode != WIRE_OP_ADD)
            continue;
        batch[i].flags = WIRE_CREATE;
        batch[i].delta = 1;
    }
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, KEYS * ROUND), reply;
    struct read_cursor cursor;
    request.count = 30; /* more fields than that do not fit a message of 1,024 bytes */
    fixture_request(&fixture, &request, batch);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    ck_assert_uint_eq(reply.count, 30);
    for (unsigned i = 0; i < 30; i++) {
        struct wire_result result;
        ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
        ck_assert_int_eq(result.status, KV_OK);
        ck_assert_int_eq(result.number, (int)(i / KEYS) + 1);
    }
    for (unsigned i = 0; i < KEYS; i++)
        assert_value(call(fixture_operation(WIRE_OP_GET, keys[i], "")), "6");
}
END_TEST

START_TEST(a_refusal_of_one_operation_has_a_sentence)
{
    struct wire_operation scan = fixture_operation(WIRE_OP_SCAN, "", "");
    scan.flags = WIRE_ATOMIC;
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), reply;
    struct read_cursor cursor;
    fixture_request(&fixture, &request, &scan);
    ck_assert(fixture_reply(&only_client, REPLY_MS, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_UNSUPPORTED);
    ck_assert_uint_eq(reply.count, 0);
    struct kv_slice sentence = read_slice(&cursor, read_cursor_left(&cursor));
    ck_assert(kv_slice_equal(sentence, kv_slice_from_string("the late engine has no atomic scan")));
}
END_TEST

static void add_submitted(Suite *suite)
{
    TCase *cases = tcase_create("operations that are submitted");
    late_client_case_add(cases);
    tcase_add_test(cases, put_get_delete);
    tcase_add_test(cases, conditions);
    tcase_add_test(cases, expiry_exists_and_touch);
    tcase_add_test(cases, add_append_exchange);
    tcase_add_test(cases, scan_page_by_page);
    tcase_add_test(cases, ping_echoes);
    tcase_add_test(cases, a_batch_answers_each_in_order);
    tcase_add_test(cases, a_batch_keeps_the_order_of_each_key);
    tcase_add_test(cases, a_malformed_first_operation_fails_the_message);
    tcase_add_test(cases, a_malformed_later_operation_fails_alone);
    tcase_add_test(cases, reply_stops_before_what_does_not_fit);
    tcase_add_test(cases, a_deadline_in_the_past_executes_nothing);
    tcase_add_test(cases, a_refusal_of_one_operation_has_a_sentence);
    suite_add_tcase(suite, cases);
}

TEST_SUITE(serverk_worker)
{
    TCase *cases = tcase_create("operations");
    one_client_case_add(cases);
    tcase_add_test(cases, put_get_delete);
    tcase_add_test(cases, conditions);
    tcase_add_test(cases, expiry_exists_and_touch);
    tcase_add_test(cases, add_append_exchange);
    tcase_add_test(cases, scan_page_by_page);
    tcase_add_test(cases, an_atomic_page_ends_between_data_files);
    tcase_add_test(cases, ping_echoes);
    suite_add_tcase(suite, cases);
    TCase *messages = tcase_create("messages");
    one_client_case_add(messages);
    tcase_add_test(messages, a_batch_answers_each_in_order);
    tcase_add_test(messages, a_malformed_first_operation_fails_the_message);
    tcase_add_test(messages, a_malformed_later_operation_fails_alone);
    tcase_add_test(messages, reply_stops_before_what_does_not_fit);
    tcase_add_test(messages, a_deadline_in_the_past_executes_nothing);
    tcase_add_test(messages, a_bye_behind_its_process_is_a_bye);
    tcase_add_test(messages, strangers_get_no_answer);
    suite_add_tcase(suite, messages);
    add_submitted(suite);
}
