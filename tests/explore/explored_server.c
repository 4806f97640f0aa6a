#include "tests/explore/explored_server.h"

#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "wire/identity.h"
#include "wire/message.h"
#include "wire/queue.h"

#define LANE_DEPTH   4u
#define LANE_BYTES   1024u
#define SESSIONS_MAX 16u

struct explored_data explored_data;

static uint32_t late_ms; /* 0: all is well */

/* Of one server. */
struct served_session {
    uint64_t nonce;
    mqd_t reply_queue;
    bool is_open;
};

struct serving {
    mqd_t lane;
    struct served_session sessions[SESSIONS_MAX]; /* the cookie is the place + 1 */
    unsigned count;
};

const char *explored_server_queue(void)
{
    return "/mqkv-explored";
}

struct kv_slice explored_server_key(unsigned key)
{
    static const char *const names[SERVER_KEYS] = {"a", "b", "c"};
    return kv_slice_from_string(names[key]);
}

void explored_server_begin(void)
{
    memset(&explored_data, 0, sizeof explored_data);
    late_ms = 0;
}

void explored_server_may_fail(uint32_t may_be_late_ms)
{
    late_ms = may_be_late_ms;
}

/* One of so many chances. */
static bool may_fail(uint32_t chances)
{
    return late_ms > 0 && explore_random(chances) == 0;
}

static void come_late(void)
{
    if (may_fail(4))
        explore_sleep_ms(explore_random(late_ms));
}

static void send_answer(const struct served_session *session, const struct write_cursor *cursor,
                        const uint8_t *message)
{
    EXPLORE_CHECK(!cursor->failed, "an answer does not fit");
    EXPLORE_CHECK(
        mq_send(session->reply_queue, (const char *)message, write_cursor_used(cursor), 0) == 0,
        "an answer does not fit into the reply queue");
}

static void greet(struct serving *serving, const struct wire_header *request,
                  struct read_cursor *body)
{
    struct wire_hello hello;
    uint8_t message[256];
    char name[WIRE_QUEUE_NAME_BYTES];
    EXPLORE_CHECK(wire_get_hello(body, &hello) == KV_OK, "HELLO is malformed");
    snprintf(name, sizeof name, "%.*s", (int)hello.reply_queue.size,
             (const char *)hello.reply_queue.data);
    if (serving->count == SESSIONS_MAX)
        return;
    struct served_session *session = &serving->sessions[serving->count];
    session->nonce = hello.nonce;
    if (wire_queue_open(name, true, &session->reply_queue, NULL, NULL) != KV_OK)
        return; /* the client's time was over */
    session->is_open = true;
    serving->count++;
    uint16_t some = (uint16_t)(1 + explore_random(hello.reply_depth));
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = WIRE_WELCOME,
                                 .session = serving->count,
                                 .request_id = request->request_id,
                                 .secret = hello.nonce};
    struct wire_welcome welcome = {.cookie = serving->count,
                                   .instance = 1,
                                   .max_value_bytes = 1 << 20,
                                   .credits = some,
                                   .flags = WIRE_WELCOME_SHORT_REPLIES,
                                   .lane_bytes = LANE_BYTES,
                                   .bulk_bytes = LANE_BYTES};
    wire_put_header(&cursor, &header);
    wire_put_welcome(&cursor, &welcome);
    send_answer(session, &cursor, message);
}

static unsigned number_of_key(struct kv_slice key)
{
    for (unsigned i = 0; i < SERVER_KEYS; i++)
        if (kv_slice_equal(key, explored_server_key(i)))
            return i;
    explore_fail("an operation on no key");
}

static void execute(const struct wire_operation *operation, struct wire_result *result,
                    char text[16])
{
    int64_t *number = &explored_data.numbers[number_of_key(operation->key)];
    *result = (struct wire_result){.status = KV_OK};
    if (operation->opcode == WIRE_OP_PUT) {
        snprintf(text, 16, "%.*s", (int)operation->value.size, (const char *)operation->value.data);
        *number = strtoll(text, NULL, 10);
        EXPLORE_CHECK(*number > 0 && *number < SERVER_MAX_WRITES, "a write that nobody made");
        if (explored_data.executed[*number]++ == 0)
            explored_data.places[*number] = ++explored_data.write_count;
        result->flags = WIRE_RESULT_HAS_VERSION;
        result->version = explored_data.write_count;
        return;
    }
    EXPLORE_CHECK(operation->opcode == WIRE_OP_GET, "operation %d", operation->opcode);
    if (*number == 0) {
        result->status = KV_NOT_FOUND;
        return;
    }
    result->flags = WIRE_RESULT_HAS_VERSION;
    result->version = 1;
    result->value = kv_slice(text, (size_t)snprintf(text, 16, "%lld", (long long)*number));
}

/* Executes some of the operations, the first at least, and answers. */
static void answer_request(const struct served_session *session, const struct wire_header *request,
                           struct read_cursor *body)
{
    uint8_t message[4096];
    char text[16];
    bool may_stop = request->flags & WIRE_REQUEST_MAY_STOP;
    unsigned count = request->count;
    struct write_cursor cursor = write_cursor(message, sizeof message);
    if (may_stop && count > 1 && explore_random(3) == 0)
        count = 1 + explore_random(count);
    struct wire_header header = {.kind = WIRE_REPLY,
                                 .count = (uint16_t)count,
                                 .request_id = request->request_id,
                                 .secret = session->nonce};
    if (may_fail(12)) {
        header.status = KV_OVERLOADED;
        header.count = 0;
        count = 0;
    }
    wire_put_header(&cursor, &header);
    for (unsigned i = 0; i < count; i++) {
        struct wire_operation operation;
        struct wire_result result;
        EXPLORE_CHECK(wire_get_operation(body, &operation) == KV_OK, "an operation is malformed");
        bool was_quiet = explore_quietly(true); /* the daemon's operations are atomic */
        execute(&operation, &result, text);
        explore_quietly(was_quiet);
        wire_put_result(&cursor, &result);
    }
    come_late();
    send_answer(session, &cursor, message);
}

/* Ends a session that the client takes for open. */
static void end_session(struct served_session *session)
{
    uint8_t message[WIRE_HEADER_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {
        .kind = WIRE_REFUSED, .status = KV_NO_SESSION, .secret = session->nonce};
    wire_put_header(&cursor, &header);
    session->is_open = false;
    mq_send(session->reply_queue, (const char *)message, write_cursor_used(&cursor), 0);
    mq_close(session->reply_queue);
}

static void take_message(struct serving *serving, const uint8_t *message, size_t size)
{
    struct read_cursor body = read_cursor(message, size);
    struct wire_header request;
    EXPLORE_CHECK(wire_get_header(&body, &request) == KV_OK, "a message is malformed");
    come_late();
    if (request.kind == WIRE_HELLO) {
        greet(serving, &request, &body);
        return;
    }
    if (request.secret == 0 || request.secret > serving->count)
        return; /* of another server's session */
    struct served_session *session = &serving->sessions[request.secret - 1];
    if (!session->is_open)
        return;
    if (request.kind == WIRE_BYE) {
        session->is_open = false;
        mq_close(session->reply_queue);
    } else if (may_fail(24)) {
        end_session(session);
    } else {
        EXPLORE_CHECK(request.kind == WIRE_REQUEST, "a message of kind %d", request.kind);
        answer_request(session, &request, &body);
    }
}

void explored_server_stop(void)
{
    mqd_t lane;
    explored_data.is_to_stop = true;
    if (wire_queue_open(explored_server_queue(), true, &lane, NULL, NULL) != KV_OK)
        return;
    mq_send(lane, "", 1, WIRE_HIGHEST_PRIORITY); /* where it is full, nobody sleeps */
    mq_close(lane);
}

void explored_server_run(void *unused)
{
    (void)unused;
    struct serving serving = {.count = 0};
    struct wire_geometry geometry = {.depth = LANE_DEPTH, .message_bytes = LANE_BYTES};
    mq_unlink(explored_server_queue());
    EXPLORE_CHECK(wire_queue_create(explored_server_queue(), geometry, 0600, false, &serving.lane,
                                    NULL) == KV_OK &&
                      wire_lock_lane(serving.lane) == 0,
                  "the lane cannot be made");
    while (!explored_data.is_to_stop) {
        uint8_t message[LANE_BYTES];
        ssize_t size = mq_receive(serving.lane, (char *)message, sizeof message, NULL);
        if (size > 0 && !explored_data.is_to_stop)
            take_message(&serving, message, (size_t)size);
    }
    mq_unlink(explored_server_queue());
    mq_close(serving.lane);
    for (unsigned i = 0; i < serving.count; i++)
        if (serving.sessions[i].is_open)
            mq_close(serving.sessions[i].reply_queue);
}
