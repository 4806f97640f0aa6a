/* Messages of a window, with queues that the test itself reads and answers: what is packed, and
 * what becomes of the tasks. */
#include <mqueue.h>
#include <stdio.h>
#include <string.h>

#include "clientk/base/client_settings.h"
#include "clientk/message/window.h"
#include "clientk/session/handshake.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/queue.h"

#define TEXT(text) kv_slice_from_string(text)
#define NONCE      7u
#define COOKIE     8u
#define MAX_TASKS  64u

static struct client_settings settings;
static struct window window;
static mqd_t lane; /* as the server has it */
static struct task tasks[MAX_TASKS];
static unsigned task_count;

/* What became of the tasks, in the order of their completion. */
static struct {
    struct task *task;
    enum kv_status status;
    bool answered;
} ended[MAX_TASKS];
static unsigned ended_count;

static void note_end(struct task_queue *queue, struct task *task, const struct outcome *outcome)
{
    (void)queue;
    ended[ended_count].task = task;
    ended[ended_count].status = outcome->status;
    ended[ended_count++].answered = outcome->result != NULL;
}

static void must_create(const char *suffix, mqd_t *queue, char name[80])
{
    char base[64];
    struct kv_error error;
    struct wire_geometry geometry = {.depth = 8, .message_bytes = 4096};
    test_queue_name(base, sizeof base);
    snprintf(name, 80, "%s.%s", base, suffix);
    assert_status(wire_queue_create(name, geometry, 0600, true, queue, &error), KV_OK);
}

static void open_window(unsigned limit, unsigned flags)
{
    char lane_name[80], reply_name[80];
    struct kv_error error;
    assert_status(client_settings_read(&settings, NULL, &error), KV_OK);
    settings.repeat_writes = false;
    ck_assert(window_init(&window, &settings, wire_window_ladder, limit));
    struct connection *connection = &window.connection;
    must_create("lane", &lane, lane_name);
    must_create("reply", &connection->reply_queue, reply_name);
    assert_status(wire_queue_open(lane_name, true, &connection->lane, NULL, &error), KV_OK);
    mq_unlink(lane_name);
    mq_unlink(reply_name);
    connection->bulk_lane = connection->lane;
    connection->open = true;
    connection->nonce = NONCE;
    connection->next_request_id = 1;
    connection->reply_geometry = (struct wire_geometry){8, 4096};
    connection->received = wire_queue_buffer(4096);
    connection->welcome = (struct wire_welcome){.cookie = COOKIE,
                                                .max_value_bytes = 1 << 20,
                                                .lane_bytes = 4096,
                                                .bulk_bytes = 4096,
                                                .credits = 8,
                                                .flags = (uint16_t)flags};
    connection->values.unavailable = true;
    task_count = 0;
    ended_count = 0;
}

static void open_short(void)
{
    open_window(1, WIRE_WELCOME_SHORT_REPLIES);
}

static void open_old(void)
{
    open_window(1, 0);
}

static void open_wide(void)
{
    open_window(4, WIRE_WELCOME_SHORT_REPLIES);
}

static void close_window(void)
{
    window_free(&window, false);
    mq_close(lane);
}

/* Adds an operation to the queue. */
static struct task *due(struct task_queue *queue, enum wire_opcode opcode, const char *key)
{
    struct task *task = &tasks[task_count++];
    queue->complete = note_end;
    *task = (struct task){.queue = queue, .operation = {.opcode = opcode, .key = TEXT(key)}};
    if (opcode == WIRE_OP_PUT)
        task->operation.value = TEXT("value");
    task_queue_push(queue, task);
    return task;
}

static struct inflight_message *must_fill(struct task_queue *queue, enum fill_verdict expected)
{
    struct inflight_message *message = window_idle_message(&window);
    ck_assert_ptr_nonnull(message);
    ck_assert(window_begin(&window, message));
    ck_assert_int_eq(window_fill(&window, message, queue, 0), expected);
    message->deadline_ms = clock_monotonic_coarse_ms() + 60000;
    return message;
}

static void must_send(struct inflight_message *message)
{
    assert_status(window_send(&window, message, message->deadline_ms), KV_OK);
}

/* Reads the next request of the client. */
static struct wire_header received(void)
{
    uint8_t bytes[4096];
    struct wire_header header;
    ssize_t size = mq_receive(lane, (char *)bytes, sizeof bytes, NULL);
    ck_assert_int_gt(size, 0);
    struct read_cursor cursor = read_cursor(bytes, (size_t)size);
    assert_status(wire_get_header(&cursor, &header), KV_OK);
    return header;
}

/* Answers with so many results without a value, all of that status. */
static void answer(const struct wire_header *request, enum kv_status of_message, unsigned results,
                   enum kv_status status)
{
    uint8_t bytes[4096];
    struct write_cursor cursor = write_cursor(bytes, sizeof bytes);
    struct wire_header header = {.kind = WIRE_REPLY,
                                 .status = of_message,
                                 .count = (uint16_t)results,
                                 .request_id = request->request_id,
                                 .secret = NONCE};
    struct wire_result result = {.status = status};
    if (status == KV_BUFFER_TOO_SMALL) {
        result.flags = WIRE_RESULT_NO_VALUE;
        result.value = kv_slice(NULL, 100);
    }
    wire_put_header(&cursor, &header);
    for (unsigned i = 0; i < results; i++)
        wire_put_result(&cursor, &result);
    ck_assert_int_eq(
        mq_send(window.connection.reply_queue, (char *)bytes, write_cursor_used(&cursor), 0), 0);
}

static enum kv_status receive(void)
{
    return window_receive(&window, clock_monotonic_coarse_ms() + 60000);
}

static void assert_ended(unsigned index, const struct task *task, enum kv_status status)
{
    ck_assert_uint_lt(index, ended_count);
    ck_assert_ptr_eq(ended[index].task, task);
    ck_assert_int_eq(ended[index].status, status);
}

/* Who needs no message must not wait until nobody else needs one. */
START_TEST(task_that_needs_no_message_is_answered_by_filling)
{
    struct task_queue queue = {.first = NULL};
    struct task *impossible = due(&queue, WIRE_OP_GET, "");
    due(&queue, WIRE_OP_GET, "k");
    struct inflight_message *message = must_fill(&queue, FILL_ALL);
    ck_assert_uint_eq(message->request.count, 1);
    ck_assert_uint_eq(ended_count, 1);
    assert_ended(0, impossible, KV_BAD_KEY);
}
END_TEST

START_TEST(short_reply_leaves_the_rest_due_in_its_order)
{
    struct task_queue queue = {.first = NULL};
    for (unsigned i = 0; i < 5; i++)
        due(&queue, i % 2 ? WIRE_OP_PUT : WIRE_OP_GET, "k");
    must_send(must_fill(&queue, FILL_ALL));
    struct wire_header request = received();
    ck_assert_uint_eq(request.count, 5);
    ck_assert_uint_eq(request.flags, WIRE_REQUEST_MAY_STOP);
    struct task *later = due(&queue, WIRE_OP_GET, "later");
    answer(&request, KV_OK, 2, KV_NOT_FOUND);
    assert_status(receive(), KV_OK);
    ck_assert_uint_eq(ended_count, 2);
    ck_assert_uint_eq(window.in_flight, 0);
    for (unsigned i = 2; i < 5; i++)
        ck_assert_ptr_eq(task_queue_pop(&queue), &tasks[i]);
    ck_assert_ptr_eq(task_queue_pop(&queue), later);
    ck_assert_ptr_null(queue.first);
}
END_TEST

START_TEST(value_without_room_is_asked_for_alone_and_then_given_up)
{
    struct task_queue queue = {.first = NULL};
    struct task *large = due(&queue, WIRE_OP_GET, "large");
    due(&queue, WIRE_OP_GET, "small");
    must_send(must_fill(&queue, FILL_ALL));
    struct wire_header request = received();
    answer(&request, KV_OK, 1, KV_BUFFER_TOO_SMALL);
    assert_status(receive(), KV_OK);
    ck_assert_uint_eq(ended_count, 0);
    must_send(must_fill(&queue, FILL_FULL));
    request = received();
    ck_assert_uint_eq(request.count, 1);
    answer(&request, KV_OK, 1, KV_BUFFER_TOO_SMALL);
    assert_status(receive(), KV_OK);
    assert_ended(0, large, KV_BUFFER_TOO_SMALL);
}
END_TEST

/* It may refuse a value, and what is behind it must not overtake it when it is sent again. */
START_TEST(old_server_gets_nothing_behind_what_gives_a_value)
{
    struct task_queue queue = {.first = NULL};
    due(&queue, WIRE_OP_PUT, "a");
    due(&queue, WIRE_OP_GET, "a");
    due(&queue, WIRE_OP_PUT, "a");
    must_send(must_fill(&queue, FILL_FULL));
    struct wire_header request = received();
    ck_assert_uint_eq(request.count, 2);
    ck_assert_uint_eq(request.flags, 0);
    answer(&request, KV_OK, 1, KV_OK); /* which it must not do */
    assert_status(receive(), KV_IO);
}
END_TEST

START_TEST(empty_answer_is_none)
{
    struct task_queue queue = {.first = NULL};
    struct task *put = due(&queue, WIRE_OP_PUT, "a");
    must_send(must_fill(&queue, FILL_ALL));
    struct wire_header request = received();
    answer(&request, KV_OK, 0, KV_OK);
    assert_status(receive(), KV_IO);
    assert_ended(0, put, KV_OUTCOME_UNKNOWN);
    ck_assert(!window.connection.open);
}
END_TEST

START_TEST(lost_reads_are_due_again_and_lost_writes_unknown)
{
    struct task_queue queue = {.first = NULL};
    struct task *get = due(&queue, WIRE_OP_GET, "a");
    struct task *put = due(&queue, WIRE_OP_PUT, "b");
    must_send(must_fill(&queue, FILL_ALL));
    window_lose(&window, false);
    ck_assert_uint_eq(ended_count, 1);
    assert_ended(0, put, KV_OUTCOME_UNKNOWN);
    ck_assert_ptr_eq(queue.first, get);
    ck_assert_ptr_null(get->next);
}
END_TEST

START_TEST(unknown_session_executed_nothing)
{
    struct task_queue queue = {.first = NULL};
    struct task *put = due(&queue, WIRE_OP_PUT, "b");
    must_send(must_fill(&queue, FILL_ALL));
    struct wire_header request = received();
    answer(&request, KV_NO_SESSION, 0, KV_OK);
    assert_status(receive(), KV_NO_SESSION);
    ck_assert_uint_eq(ended_count, 0);
    ck_assert_ptr_eq(queue.first, put);
    ck_assert(!put->uncertain);
}
END_TEST

START_TEST(refusal_does_not_deny_what_may_have_been_executed)
{
    struct task_queue queue = {.first = NULL};
    struct task *put = due(&queue, WIRE_OP_PUT, "a");
    struct task *get = due(&queue, WIRE_OP_GET, "b");
    put->uncertain = true; /* sent before, and repeated */
    must_send(must_fill(&queue, FILL_ALL));
    struct wire_header request = received();
    answer(&request, KV_OVERLOADED, 0, KV_OK);
    assert_status(receive(), KV_OK);
    assert_ended(0, put, KV_OUTCOME_UNKNOWN);
    assert_ended(1, get, KV_OVERLOADED);
}
END_TEST

/* Of a write that was sent before and is repeated, and then ends so. */
static const struct {
    enum wire_opcode opcode;
    enum kv_status second, told;
} repeats[] = {
    {WIRE_OP_PUT, KV_OK, KV_OK},
    {WIRE_OP_PUT, KV_NOT_DURABLE, KV_NOT_DURABLE},
    {WIRE_OP_PUT, KV_FULL, KV_OUTCOME_UNKNOWN},
    {WIRE_OP_PUT, KV_OVERLOADED, KV_OUTCOME_UNKNOWN},
    {WIRE_OP_TOUCH, KV_NOT_FOUND, KV_OUTCOME_UNKNOWN},
    {WIRE_OP_DELETE, KV_READ_ONLY, KV_OUTCOME_UNKNOWN},
    {WIRE_OP_DELETE, KV_NOT_FOUND, KV_OK},
};

START_TEST(result_does_not_deny_what_may_have_been_executed)
{
    struct task_queue queue = {.first = NULL};
    struct task *write = due(&queue, repeats[_i].opcode, "a");
    write->uncertain = true;
    must_send(must_fill(&queue, FILL_ALL));
    struct wire_header request = received();
    answer(&request, KV_OK, 1, repeats[_i].second);
    assert_status(receive(), KV_OK);
    assert_ended(0, write, repeats[_i].told);
    ck_assert(ended[0].answered); /* so that what is behind it in a batch goes on */
}
END_TEST

/* Another server, which takes smaller values. */
START_TEST(what_cannot_be_repeated_is_not_denied)
{
    struct task_queue queue = {.first = NULL};
    struct task *put = due(&queue, WIRE_OP_PUT, "a");
    struct task *first = due(&queue, WIRE_OP_PUT, "b");
    put->uncertain = true;
    window.connection.welcome.max_value_bytes = 1;
    must_fill(&queue, FILL_ALL);
    assert_ended(0, put, KV_OUTCOME_UNKNOWN);
    assert_ended(1, first, KV_VALUE_TOO_BIG);
}
END_TEST

START_TEST(one_queue_gives_up_and_the_other_has_its_answer)
{
    struct task_queue hasty = {.first = NULL}, patient = {.first = NULL};
    struct task *put = due(&hasty, WIRE_OP_PUT, "a");
    struct task *get = due(&patient, WIRE_OP_GET, "b");
    struct inflight_message *message = must_fill(&hasty, FILL_ALL);
    ck_assert_int_eq(window_fill(&window, message, &patient, 0), FILL_ALL);
    must_send(message);
    struct wire_header request = received();
    window_give_up(&window, &hasty);
    assert_ended(0, put, KV_TIMEOUT);
    ck_assert_uint_eq(window.in_flight, 1);
    answer(&request, KV_OK, 2, KV_NOT_FOUND);
    assert_status(receive(), KV_OK);
    assert_ended(1, get, KV_NOT_FOUND);
    ck_assert(!window.connection.suspect);
}
END_TEST

START_TEST(message_that_nobody_waits_for_makes_the_session_suspect)
{
    struct task_queue queue = {.first = NULL};
    due(&queue, WIRE_OP_GET, "a");
    must_send(must_fill(&queue, FILL_ALL));
    window_give_up(&window, &queue);
    ck_assert_uint_eq(window.in_flight, 0);
    ck_assert(window.connection.suspect);
}
END_TEST

START_TEST(key_in_flight_is_waited_for_unless_both_read)
{
    struct task_queue queue = {.first = NULL};
    due(&queue, WIRE_OP_PUT, "a");
    must_send(must_fill(&queue, FILL_ALL));
    struct task *reader = due(&queue, WIRE_OP_GET, "a");
    must_fill(&queue, FILL_WAITS);
    ck_assert_ptr_eq(queue.first, reader);
    struct wire_header request = received();
    answer(&request, KV_OK, 1, KV_OK);
    assert_status(receive(), KV_OK);
    must_send(must_fill(&queue, FILL_ALL));
    due(&queue, WIRE_OP_GET, "a");
    must_send(must_fill(&queue, FILL_ALL));
    ck_assert_uint_eq(window.in_flight, 2);
    window_lose(&window, false);
}
END_TEST

START_TEST(lost_messages_are_due_again_in_the_order_of_sending)
{
    struct task_queue queue = {.first = NULL};
    static const char *const keys[] = {"a", "b", "c", "d", "e"};
    for (unsigned i = 0; i < 4; i++) {
        due(&queue, WIRE_OP_GET, keys[i]);
        must_send(must_fill(&queue, FILL_ALL));
    }
    struct wire_header request = received();
    answer(&request, KV_OK, 1, KV_NOT_FOUND);
    assert_status(receive(), KV_OK); /* of "a": its message is used again, for the youngest */
    due(&queue, WIRE_OP_GET, keys[4]);
    must_fill(&queue, FILL_ALL);
    window_lose(&window, false);
    for (unsigned i = 1; i < 5; i++)
        ck_assert_ptr_eq(task_queue_pop(&queue), &tasks[i]);
    ck_assert_ptr_null(queue.first);
}
END_TEST

START_TEST(lent_bytes_are_kept_by_what_is_due_again)
{
    struct task_queue queue = {.first = NULL, .lent_until_packed = true};
    char key[] = "lent", value[] = "bytes";
    struct task *put = due(&queue, WIRE_OP_PUT, key);
    put->operation.value = TEXT(value);
    struct inflight_message *message = must_fill(&queue, FILL_ALL);
    memset(key, 'x', 4);
    memset(value, 'x', 5);
    window_lose(&window, false);
    memset(message->request.message, 'y', 200);
    ck_assert_ptr_eq(queue.first, put);
    ck_assert(kv_slice_equal(put->operation.key, TEXT("lent")));
    ck_assert(kv_slice_equal(put->operation.value, TEXT("bytes")));
    task_queue_stop(&queue, KV_DEADLINE);
    assert_ended(0, put, KV_DEADLINE);
}
END_TEST

static enum wire_spin_mode spin_after_welcome(unsigned flags)
{
    uint8_t message[256];
    struct kv_error error;
    struct wire_header header = {.kind = WIRE_WELCOME, .session = 1};
    struct write_cursor out = write_cursor(message, sizeof message);
    ck_assert(wire_put_welcome(
        &out, &(struct wire_welcome){.credits = 4, .lane_bytes = 4096, .flags = (uint16_t)flags}));
    struct read_cursor in = read_cursor(message, sizeof message);
    assert_status(handshake_read_answer(&window.connection, &header, &in, &error), KV_OK);
    return window.connection.waiter.spin.mode;
}

START_TEST(who_waits_for_a_network_does_not_poll_unless_told_to)
{
    ck_assert_int_eq(spin_after_welcome(0), WIRE_SPIN_AUTO);
    ck_assert_int_eq(spin_after_welcome(WIRE_WELCOME_NETWORK), WIRE_SPIN_OFF);
    ck_assert_int_eq(spin_after_welcome(0), WIRE_SPIN_AUTO); /* another server, after a restart */
    settings.spin = (struct wire_spin){.mode = WIRE_SPIN_FIXED, .fixed_us = 20};
    ck_assert_int_eq(spin_after_welcome(WIRE_WELCOME_NETWORK), WIRE_SPIN_FIXED);
}
END_TEST

START_TEST(who_loses_the_session_at_once_is_told_by_whom)
{
    struct connection *connection = &window.connection;
    struct kv_error error;
    assert_status(handshake_judge_first_request(connection, KV_NO_SESSION, &error), KV_NO_SESSION);
    ck_assert_ptr_nonnull(strstr(error.text, "ended the session"));
    connection->filled_ms = 1;
    assert_status(handshake_judge_first_request(connection, KV_NO_SESSION, &error), KV_NO_SESSION);
    ck_assert_ptr_nonnull(strstr(error.text, "another process"));
}
END_TEST

TEST_SUITE(clientk_window)
{
    TCase *one = tcase_create("one_message");
    tcase_add_checked_fixture(one, open_short, close_window);
    tcase_add_test(one, task_that_needs_no_message_is_answered_by_filling);
    tcase_add_test(one, short_reply_leaves_the_rest_due_in_its_order);
    tcase_add_test(one, value_without_room_is_asked_for_alone_and_then_given_up);
    tcase_add_test(one, empty_answer_is_none);
    tcase_add_test(one, lost_reads_are_due_again_and_lost_writes_unknown);
    tcase_add_test(one, unknown_session_executed_nothing);
    tcase_add_test(one, refusal_does_not_deny_what_may_have_been_executed);
    tcase_add_loop_test(one, result_does_not_deny_what_may_have_been_executed, 0,
                        (int)(sizeof repeats / sizeof repeats[0]));
    tcase_add_test(one, what_cannot_be_repeated_is_not_denied);
    tcase_add_test(one, one_queue_gives_up_and_the_other_has_its_answer);
    tcase_add_test(one, message_that_nobody_waits_for_makes_the_session_suspect);
    suite_add_tcase(suite, one);
    TCase *old = tcase_create("old_server");
    tcase_add_checked_fixture(old, open_old, close_window);
    tcase_add_test(old, old_server_gets_nothing_behind_what_gives_a_value);
    suite_add_tcase(suite, old);
    TCase *wide = tcase_create("several_messages");
    tcase_add_checked_fixture(wide, open_wide, close_window);
    tcase_add_test(wide, key_in_flight_is_waited_for_unless_both_read);
    tcase_add_test(wide, lost_messages_are_due_again_in_the_order_of_sending);
    tcase_add_test(wide, lent_bytes_are_kept_by_what_is_due_again);
    suite_add_tcase(suite, wide);
    TCase *welcome = tcase_create("welcome");
    tcase_add_checked_fixture(welcome, open_short, close_window);
    tcase_add_test(welcome, who_waits_for_a_network_does_not_poll_unless_told_to);
    tcase_add_test(welcome, who_loses_the_session_at_once_is_told_by_whom);
    suite_add_tcase(suite, welcome);
}
