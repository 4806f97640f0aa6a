/* What a connection reads from its socket, and when. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bridges/kresp/bridge/redis_connection.h"
#include "tests/support/test_suite.h"

static struct redis_connection connection;
static int peer;

static void open_pair(void)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(fcntl(ends[i], F_SETFL, O_NONBLOCK), 0);
    connection = (struct redis_connection){.fd = ends[0], .writable = true};
    connection.session.authenticated = true;
    peer = ends[1];
}

static void close_pair(void)
{
    close(peer);
    close(connection.fd);
    redis_session_free(&connection.session);
}

/* The peer sends as long as the socket takes it; the connection is told. */
static void flood(void)
{
    static char commands[32 * 1024];
    memset(commands, '\n', sizeof commands);
    while (send(peer, commands, sizeof commands, MSG_NOSIGNAL) > 0)
        continue;
    connection.readable = true;
}

static size_t received(void)
{
    return byte_buffer_size(&connection.session.input);
}

/* As if the peer had left so many bytes of replies unread. */
static void leave_unread(size_t bytes)
{
    ck_assert(byte_buffer_grow(&connection.session.reply.bytes, bytes));
    memset(connection.session.reply.bytes.data, 'r', bytes);
    connection.session.reply.bytes.end = bytes;
}

START_TEST(commands_that_came_are_executed_before_more_is_read)
{
    flood();
    redis_connection_read(&connection);
    size_t once = received();
    ck_assert_uint_gt(once, 0);
    ck_assert(connection.has_more);
    connection.readable = true;
    ck_assert(!redis_connection_may_read(&connection));
    redis_connection_read(&connection);
    ck_assert_uint_eq(received(), once);
}
END_TEST

/* What is received of a client that sends without end, and has left replies unread. */
static size_t receive_ahead(void)
{
    leave_unread((size_t)1024 * 1024);
    ck_assert(!redis_connection_may_take(&connection));
    flood();
    for (unsigned i = 0; i < 10000 && redis_connection_may_read(&connection); i++) {
        redis_connection_read(&connection);
        flood();
    }
    return received();
}

START_TEST(a_client_that_does_not_read_is_read_up_to_a_limit)
{
    size_t bytes = receive_ahead();
    ck_assert_uint_ge(bytes, (size_t)16 * 1024 * 1024);
    ck_assert_uint_lt(bytes, (size_t)17 * 1024 * 1024);
}
END_TEST

START_TEST(a_stranger_is_read_up_to_a_lower_one)
{
    connection.session.authenticated = false;
    ck_assert_uint_lt(receive_ahead(), (size_t)256 * 1024);
}
END_TEST

START_TEST(the_arguments_of_an_unfinished_command_follow)
{
    struct redis_session *session = &connection.session;
    struct kv_slice arguments[2];
    byte_buffer_append(&session->input, "MGET first", 10);
    arguments[0] = kv_slice(session->input.data, 4);
    arguments[1] = kv_slice(session->input.data + 5, 5);
    struct redis_job job = {.session = session, .arguments = arguments, .count = 2};
    session->unfinished = redis_job_keep(&job);
    ck_assert_ptr_nonnull(session->unfinished);
    leave_unread((size_t)1024 * 1024);
    for (unsigned i = 0; i < 100; i++) {
        flood();
        redis_connection_read(&connection);
    }
    ck_assert_uint_gt(received(), 200000);
    const struct kv_slice *kept = session->unfinished->arguments;
    ck_assert_ptr_eq(kept[0].data, session->input.data);
    ck_assert_ptr_eq(kept[1].data, session->input.data + 5);
    ck_assert_mem_eq(kept[1].data, "first", 5);
}
END_TEST

/* Receives one request of so many arguments, and answers it. */
static void receive_request(size_t arguments)
{
    static const struct resp_limits limits = {
        .max_argument_bytes = 1024, .max_request_bytes = (size_t)1 << 24, .max_arguments = 1 << 20};
    struct redis_session *session = &connection.session;
    char problem[RESP_PROBLEM_BYTES], header[32];
    int size = snprintf(header, sizeof header, "*%zu\r\n", arguments);
    byte_buffer_append(&session->input, header, (size_t)size);
    for (size_t i = 0; i < arguments; i++)
        byte_buffer_append(&session->input, "$1\r\nx\r\n", 7);
    ck_assert_int_eq(resp_request_next(&session->request, &session->input, &limits, problem),
                     RESP_REQUEST);
    ck_assert_uint_eq(session->request.count, arguments);
    redis_connection_release(&connection);
}

START_TEST(a_large_request_gives_its_memory_back)
{
    size_t before = byte_buffer_total();
    receive_request(100000);
    ck_assert_uint_eq(received(), 0);
    ck_assert_uint_le(byte_buffer_total() - before, (size_t)128 * 1024);
    receive_request(3);
    receive_request(100000);
    ck_assert_uint_le(byte_buffer_total() - before, (size_t)128 * 1024);
}
END_TEST

TEST_SUITE(kresp_connection)
{
    TCase *reading = tcase_create("reading");
    tcase_add_checked_fixture(reading, open_pair, close_pair);
    tcase_set_timeout(reading, 60);
    tcase_add_test(reading, commands_that_came_are_executed_before_more_is_read);
    tcase_add_test(reading, a_client_that_does_not_read_is_read_up_to_a_limit);
    tcase_add_test(reading, a_stranger_is_read_up_to_a_lower_one);
    tcase_add_test(reading, a_large_request_gives_its_memory_back);
    tcase_add_test(reading, the_arguments_of_an_unfinished_command_follow);
    suite_add_tcase(suite, reading);
}
