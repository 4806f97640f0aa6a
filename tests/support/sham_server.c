#include "tests/support/sham_server.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "wire/queue.h"

#define LANE_BYTES 4096u
#define TICK_NS    1000000

unsigned sham_welcomes = UINT_MAX;

/* Ends the process: in the sham server, so that the test meets a server that died. */
static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "sham_server: %s\n", what);
    _exit(1);
}

static void send_message(const struct sham_session *session, const struct write_cursor *cursor,
                         const uint8_t *message)
{
    require(!cursor->failed &&
                wire_send(session->reply_queue, message, write_cursor_used(cursor), 0, 1000) == 0,
            "an answer does not fit");
}

static void put_reply(const struct sham_session *session, const struct wire_header *request,
                      enum kv_status status, unsigned results, struct write_cursor *cursor)
{
    struct wire_header header = {.kind = WIRE_REPLY,
                                 .status = status,
                                 .count = (uint16_t)results,
                                 .request_id = request->request_id,
                                 .secret = session->nonce};
    wire_put_header(cursor, &header);
}

void sham_answer(const struct sham_session *session, const struct wire_header *request,
                 enum kv_status status, const struct wire_result *result)
{
    uint8_t message[LANE_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    put_reply(session, request, status, result != NULL, &cursor);
    if (result)
        require(wire_put_result(&cursor, result), "a result does not fit");
    send_message(session, &cursor, message);
}

void sham_refuse(const struct sham_session *session, const struct wire_header *request,
                 enum kv_status status, const char *sentence)
{
    uint8_t message[LANE_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    put_reply(session, request, status, 0, &cursor);
    write_bytes(&cursor, sentence, strlen(sentence));
    send_message(session, &cursor, message);
}

static void welcome(struct sham_session *session, const struct wire_header *request,
                    struct read_cursor *body)
{
    struct wire_hello hello;
    require(wire_get_hello(body, &hello) == KV_OK, "HELLO is malformed");
    char name[WIRE_QUEUE_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)hello.reply_queue.size,
             (const char *)hello.reply_queue.data);
    session->nonce = hello.nonce;
    session->segment = NULL;
    if (session->reply_queue != (mqd_t)-1)
        mq_close(session->reply_queue);
    if (wire_queue_open(name, true, &session->reply_queue, NULL, NULL) != KV_OK) {
        session->reply_queue = (mqd_t)-1; /* the client's time was over */
        return;
    }
    if (sham_welcomes == 0) {
        while (mq_send(session->reply_queue, "garbage", 7, 0) == 0)
            ;
        return;
    }
    sham_welcomes -= sham_welcomes != UINT_MAX;
    struct wire_header header = {
        .kind = WIRE_WELCOME, .request_id = request->request_id, .secret = hello.nonce};
    struct wire_welcome terms = {.cookie = 1,
                                 .instance = 1,
                                 .max_value_bytes = 1 << 20,
                                 .server_pid = (uint32_t)getpid(),
                                 .credits = hello.reply_depth,
                                 .lane_bytes = LANE_BYTES,
                                 .bulk_bytes = LANE_BYTES};
    uint8_t message[256];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    wire_put_header(&cursor, &header);
    wire_put_welcome(&cursor, &terms);
    send_message(session, &cursor, message);
}

static void take_segment(struct sham_session *session, const struct wire_header *request,
                         struct read_cursor *body)
{
    struct wire_segment_offer offer;
    require(wire_get_segment_offer(body, &offer) == KV_OK, "the offer is malformed");
    char name[WIRE_QUEUE_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)offer.name.size, (const char *)offer.name.data);
    require(wire_segment_open(name, offer.bytes, getuid(), true, &session->segment, NULL) == KV_OK,
            "the segment cannot be opened");
    sham_answer(session, request, KV_OK, NULL);
}

static void take_request(const struct sham_session *session, const struct wire_header *request,
                         struct read_cursor *body, sham_handler handler)
{
    struct wire_operation operation;
    require(wire_get_operation(body, &operation) == KV_OK, "an operation is malformed");
    if (operation.flags & WIRE_VALUE_IN_SEGMENT)
        operation.value.data =
            wire_segment_at(session->segment, operation.value_offset, operation.value.size);
    handler(session, request, &operation);
}

static void take_message(struct sham_session *session, const uint8_t *message, size_t size,
                         sham_handler handler)
{
    struct read_cursor body = read_cursor(message, size);
    struct wire_header request;
    require(wire_get_header(&body, &request) == KV_OK, "a message is malformed");
    if (request.kind == WIRE_HELLO)
        welcome(session, &request, &body);
    else if (request.kind == WIRE_SEGMENT)
        take_segment(session, &request, &body);
    else if (request.kind == WIRE_REQUEST)
        take_request(session, &request, &body, handler);
}

static void serve(const char *queue, sham_handler handler)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct wire_geometry geometry = {.depth = 4, .message_bytes = LANE_BYTES};
    mqd_t lane;
    require(wire_queue_create(queue, geometry, 0600, false, &lane, NULL) == KV_OK &&
                wire_lock_lane(lane) == 0,
            "the lane cannot be made");
    struct sham_session session = {.reply_queue = (mqd_t)-1};
    for (;;) {
        uint8_t message[LANE_BYTES];
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        ssize_t size = mq_timedreceive(lane, (char *)message, sizeof message, NULL, &until);
        if (size > 0)
            take_message(&session, message, (size_t)size, handler);
        else
            handler(&session, NULL, NULL);
    }
}

static bool served(const char *queue)
{
    mqd_t lane;
    if (wire_queue_open(queue, true, &lane, NULL, NULL) != KV_OK)
        return false;
    bool is_served = wire_lane_server(lane) > 0;
    mq_close(lane);
    return is_served;
}

pid_t sham_server_start(const char *queue, sham_handler handler)
{
    pid_t pid = fork();
    require(pid >= 0, "no process for it");
    if (pid == 0)
        serve(queue, handler);
    while (!served(queue)) {
        require(waitpid(pid, NULL, WNOHANG) == 0, "it did not start");
        clock_sleep_ms(1);
    }
    return pid;
}

void sham_server_stop(pid_t pid, const char *queue)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    mq_unlink(queue);
}
