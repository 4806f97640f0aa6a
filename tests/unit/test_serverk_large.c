/* Values larger than a message: in parts both ways, and through the segment, mapped and not. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/one_client_worker.h"
#include "tests/support/test_suite.h"
#include "wire/value_segment.h"

/* Into the store directly: larger than a message takes. */
static void store_value(const char *key, size_t size, char fill)
{
    char *value = malloc(size);
    memset(value, fill, size);
    ck_assert_int_eq(kvstore_put(fixture.service.store, kv_slice_from_string(key),
                                 kv_slice(value, size), NULL, NULL),
                     KV_OK);
    free(value);
}

/* Collects a reply that comes in fragments, asking for each; returns the whole REPLY message. */
static uint8_t *fetch_whole(uint64_t request_id, size_t *size)
{
    struct wire_header header;
    struct read_cursor cursor;
    struct wire_part part;
    uint8_t *whole = NULL;
    size_t done = 0;
    do {
        ck_assert(fixture_reply(&only_client, 0, &header, &cursor));
        ck_assert_int_eq(header.kind, WIRE_REPLY_PART);
        ck_assert_uint_eq(header.request_id, request_id);
        ck_assert_int_eq(wire_get_part(&cursor, &part), KV_OK);
        ck_assert_uint_eq(part.offset, done);
        if (!whole)
            whole = malloc(part.total_bytes);
        memcpy(whole + done, part.bytes.data, part.bytes.size);
        done += part.bytes.size;
        uint8_t message[128];
        struct write_cursor write = write_cursor(message, sizeof message);
        struct wire_header more = fixture_header(&only_client, WIRE_MORE, 0);
        more.request_id = request_id;
        struct wire_part next = {.offset = (uint32_t)done};
        wire_put_header(&write, &more);
        wire_put_part(&write, &next);
        if (done < part.total_bytes)
            fixture_handle(&fixture, message, write_cursor_used(&write));
    } while (done < part.total_bytes);
    *size = done;
    return whole;
}

START_TEST(a_large_value_comes_in_fragments)
{
    store_value("large", 20000, 'x');
    struct wire_operation get = fixture_operation(WIRE_OP_GET, "large", "");
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), reply;
    fixture_request(&fixture, &request, &get);
    size_t size;
    uint8_t *whole = fetch_whole(request.request_id, &size);
    struct read_cursor cursor = read_cursor(whole, size);
    struct wire_result result;
    ck_assert_int_eq(wire_get_header(&cursor, &reply), KV_OK);
    ck_assert_int_eq(reply.kind, WIRE_REPLY);
    ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
    ck_assert_uint_eq(result.value.size, 20000);
    ck_assert_int_eq(((const char *)result.value.data)[19999], 'x');
    free(whole);
}
END_TEST

START_TEST(with_too_many_waiting_only_the_size_comes)
{
    store_value("large", 20000, 'x');
    struct wire_operation get = fixture_operation(WIRE_OP_GET, "large", "");
    struct wire_header reply;
    struct read_cursor cursor;
    for (unsigned i = 0; i < FRAGMENTS_MAX_STORED; i++) {
        struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1);
        fixture_request(&fixture, &request, &get);
        ck_assert(fixture_reply(&only_client, 0, &reply, &cursor));
        ck_assert_int_eq(reply.kind, WIRE_REPLY_PART);
    }
    struct wire_result result = call(get);
    ck_assert_int_eq(result.status, KV_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(result.value.size, 20000);
    struct wire_result old = call(fixture_operation(WIRE_OP_EXCHANGE, "large", "small"));
    ck_assert_int_eq(old.status, KV_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(call(fixture_operation(WIRE_OP_EXISTS, "large", "")).value.size, 20000);
}
END_TEST

static void handle_part(uint64_t request_id, const uint8_t *whole, size_t total, size_t offset,
                        size_t size)
{
    uint8_t message[FIXTURE_MESSAGE_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = fixture_header(&only_client, WIRE_PART, 0);
    header.request_id = request_id;
    struct wire_part part = {.total_bytes = (uint32_t)total,
                             .offset = (uint32_t)offset,
                             .bytes = kv_slice(whole + offset, size)};
    wire_put_header(&cursor, &header);
    wire_put_part(&cursor, &part);
    fixture_handle(&fixture, message, write_cursor_used(&cursor));
}

START_TEST(a_large_request_comes_in_parts)
{
    static uint8_t whole[60000], value[50000];
    memset(value, 'y', sizeof value);
    struct write_cursor write = write_cursor(whole, sizeof whole);
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), reply;
    struct wire_operation large = fixture_operation(WIRE_OP_PUT, "k", "");
    large.value = kv_slice(value, sizeof value);
    wire_put_header(&write, &request);
    ck_assert(wire_put_operation(&write, &large));
    size_t total = write_cursor_used(&write), part_bytes = 8000;
    struct read_cursor cursor;
    for (size_t offset = 0; offset < total; offset += part_bytes) {
        bool last = offset + part_bytes >= total;
        handle_part(request.request_id, whole, total, offset, last ? total - offset : part_bytes);
        ck_assert(fixture_reply(&only_client, 0, &reply, &cursor));
        ck_assert_int_eq(reply.kind, WIRE_REPLY);
        ck_assert_int_eq(reply.status, KV_OK);
        ck_assert_uint_eq(reply.request_id, request.request_id);
        ck_assert_uint_eq(reply.count, last ? 1 : 0);
    }
    ck_assert_uint_eq(call(fixture_operation(WIRE_OP_EXISTS, "k", "")).value.size, sizeof value);
}
END_TEST

START_TEST(parts_of_a_foreign_message_are_refused)
{
    uint8_t whole[128] = {0};
    struct write_cursor write = write_cursor(whole, sizeof whole);
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 0), reply;
    struct read_cursor cursor;
    request.secret++;
    wire_put_header(&write, &request);
    handle_part(request.request_id, whole, sizeof whole, 0, sizeof whole);
    ck_assert(fixture_reply(&only_client, 0, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_BAD_REQUEST);
    handle_part(request.request_id, whole, sizeof whole, 64, 64);
    ck_assert(fixture_reply(&only_client, 0, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_BAD_REQUEST);
}
END_TEST

/* The sentence names limit and size. */
START_TEST(what_is_too_large_is_told_with_its_limit)
{
    uint8_t whole[128] = {0};
    struct write_cursor write = write_cursor(whole, sizeof whole);
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 5000), reply;
    struct read_cursor cursor;
    handle_part(request.request_id, whole, 60000000, 0, 64);
    ck_assert(fixture_reply(&only_client, 0, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_VALUE_TOO_BIG);
    char text[400] = "";
    memcpy(text, cursor.at, read_cursor_left(&cursor));
    ck_assert_ptr_nonnull(strstr(text, "60000000"));
    wire_put_header(&write, &request);
    handle_part(request.request_id, whole, sizeof whole, 0, sizeof whole);
    ck_assert(fixture_reply(&only_client, 0, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_BAD_REQUEST);
    memset(text, 0, sizeof text);
    memcpy(text, cursor.at, read_cursor_left(&cursor));
    ck_assert_ptr_nonnull(strstr(text, "4096"));
    ck_assert_ptr_nonnull(strstr(text, "5000"));
}
END_TEST

/* Mapped (_i 0) and not (_i 1). */
START_TEST(values_through_the_segment)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    struct wire_segment *segment, *servers;
    struct kv_error error = {0};
    wire_queue_name(name, fixture.name, WIRE_REPLY_SEGMENT, getpid(), 8);
    ck_assert_int_eq(wire_segment_create(name, 262144, 0600, &segment, &error), KV_OK);
    ck_assert_int_eq(wire_segment_open(name, 262144, geteuid(), _i == 0, &servers, &error), KV_OK);
    session_add_segment(only_client.session, servers, name);
    shm_unlink(name);

    char *put_value = wire_segment_at(segment, 1000, 70000);
    memset(put_value, 'p', 70000);
    struct wire_operation large = fixture_operation(WIRE_OP_PUT, "large", "");
    large.flags = WIRE_VALUE_IN_SEGMENT;
    large.value.size = 70000;
    large.value_offset = 1000;
    ck_assert_int_eq(call(large).status, KV_OK);

    struct wire_operation gets[2] = {fixture_operation(WIRE_OP_GET, "large", ""),
                                     fixture_operation(WIRE_OP_GET, "large", "")};
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 2), reply;
    request.window_offset = 100001; /* not aligned */
    request.window_bytes = 150000;
    struct read_cursor cursor;
    struct wire_result result;
    fixture_request(&fixture, &request, gets);
    ck_assert(fixture_reply(&only_client, 0, &reply, &cursor));
    uint32_t end = 100001;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
        ck_assert_int_eq(result.status, KV_OK);
        ck_assert(result.flags & WIRE_RESULT_IN_SEGMENT);
        ck_assert_uint_eq(result.value.size, 70000);
        ck_assert_uint_eq(result.value_offset % 8, 0);
        ck_assert_uint_ge(result.value_offset, end);
        end = result.value_offset + 70000;
        const char *value = wire_segment_at(segment, result.value_offset, 70000);
        ck_assert_int_eq(value[0], 'p');
        ck_assert_int_eq(value[69999], 'p');
    }
    ck_assert_uint_le(end, 250001);
    wire_segment_close(segment);
}
END_TEST

/* The old value is nowhere but in the reply: it must not be lost with the window. A limit on the
 * size of files stands for a full /dev/shm; the segment is not mapped. */
START_TEST(an_old_value_that_the_window_refuses_comes_in_fragments)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    struct wire_segment *segment, *servers;
    struct kv_error error = {0};
    wire_queue_name(name, fixture.name, WIRE_REPLY_SEGMENT, getpid(), 10);
    ck_assert_int_eq(wire_segment_create(name, 65536, 0600, &segment, &error), KV_OK);
    ck_assert_int_eq(wire_segment_open(name, 65536, geteuid(), false, &servers, &error), KV_OK);
    session_add_segment(only_client.session, servers, name);
    shm_unlink(name);
    store_value("large", 16000, 'x'); /* exchanged without a call that writes the log */

    struct rlimit limit, before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct wire_operation exchange = fixture_operation(WIRE_OP_EXCHANGE, "large", "small");
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), reply;
    request.window_offset = 8192;
    request.window_bytes = 40000;
    fixture_request(&fixture, &request, &exchange);
    setrlimit(RLIMIT_FSIZE, &before);

    size_t size;
    uint8_t *whole = fetch_whole(request.request_id, &size);
    struct read_cursor cursor = read_cursor(whole, size);
    struct wire_result result;
    ck_assert_int_eq(wire_get_header(&cursor, &reply), KV_OK);
    ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
    ck_assert_int_eq(result.status, KV_OK);
    ck_assert(result.flags & WIRE_RESULT_FOUND);
    ck_assert_uint_eq(result.value.size, 16000);
    ck_assert_int_eq(((const char *)result.value.data)[0], 'x');
    ck_assert_int_eq(((const char *)result.value.data)[15999], 'x');
    free(whole);
    ck_assert_uint_eq(call(fixture_operation(WIRE_OP_EXISTS, "large", "")).value.size, 5);
    wire_segment_close(segment);
}
END_TEST

/* With the server's side mapped (_i 0) and not (_i 1). */
START_TEST(value_above_the_limit_is_refused)
{
    struct wire_segment *segment, *servers;
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, fixture.name, WIRE_REPLY_SEGMENT, getpid(), 9);
    struct kv_error error = {0};
    ck_assert_int_eq(wire_segment_create(name, 2 * MAX_VALUE_BYTES, 0600, &segment, &error), KV_OK);
    ck_assert_int_eq(
        wire_segment_open(name, 2 * MAX_VALUE_BYTES, geteuid(), _i == 0, &servers, &error), KV_OK);
    session_add_segment(only_client.session, servers, name);
    shm_unlink(name);
    struct wire_operation large = fixture_operation(WIRE_OP_PUT, "k", "");
    large.flags = WIRE_VALUE_IN_SEGMENT;
    large.value.size = MAX_VALUE_BYTES + 1;
    ck_assert_int_eq(call(large).status, KV_VALUE_TOO_BIG);
    large.value.size = MAX_VALUE_BYTES;
    large.value_offset = MAX_VALUE_BYTES + 1; /* ends behind the segment */
    ck_assert_int_eq(call(large).status, KV_BAD_REQUEST);
    large.value_offset = MAX_VALUE_BYTES;
    ck_assert_int_eq(call(large).status, KV_OK);
    wire_segment_close(segment);
}
END_TEST

TEST_SUITE(serverk_large)
{
    TCase *large = tcase_create("large values");
    one_client_case_add(large);
    tcase_add_test(large, a_large_value_comes_in_fragments);
    tcase_add_test(large, with_too_many_waiting_only_the_size_comes);
    tcase_add_test(large, a_large_request_comes_in_parts);
    tcase_add_test(large, parts_of_a_foreign_message_are_refused);
    tcase_add_test(large, what_is_too_large_is_told_with_its_limit);
    tcase_add_loop_test(large, values_through_the_segment, 0, 2);
    tcase_add_test(large, an_old_value_that_the_window_refuses_comes_in_fragments);
    tcase_add_loop_test(large, value_above_the_limit_is_refused, 0, 2);
    suite_add_tcase(suite, large);
}
