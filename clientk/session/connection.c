#include "clientk/session/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/time/clock.h"

/* How long to wait at most before checking that the server still runs. A pidfd ends the wait when
 * the server ends, so with one this is for what a pidfd does not tell. A program with an
 * `interrupted` function is asked as often as without a pidfd, so a wait that is answered within
 * LOOK_AFTER_MS is never interrupted. */
#define LOOK_AFTER_MS            100u
#define LOOK_AFTER_WITH_PIDFD_MS 1000u
#define SEND_SLICE_MS            100u
/* Nothing wakes who sleeps at a ring when the server ends. */
#define LOOK_AFTER_AT_RING_MS    50u

/* How long to wait for an answer in flight once another process has filled the queue. */
#define FILLED_PATIENCE_MS 250u

/* Whether the server's process has ended, or, if that cannot be seen, no process holds its lane. */
static bool server_ended(const struct connection *connection)
{
    if (connection->pidfd < 0)
        return wire_queue_unlinked(connection->lane) || wire_lane_server(connection->lane) == 0;
    struct pollfd ended = {.fd = connection->pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}

/* The kernel orders every queue by priority. A server that is to be fair to all asks for none; but
 * where others may have opened the lane, nothing that they send may come first. Before there is a
 * session, only HELLO is sent. */
static unsigned priority_to_send(const struct connection *connection)
{
    const struct wire_welcome *welcome = &connection->welcome;
    if (!connection->open)
        return WIRE_HIGHEST_PRIORITY;
    if (!(welcome->flags & WIRE_WELCOME_PRIORITY))
        return welcome->lane_family == WIRE_FAMILY_GUESTS ? WIRE_HIGHEST_PRIORITY : 0;
    return atomic_load_explicit(&connection->priority, memory_order_relaxed);
}

/* The lane was full, or a signal came. */
__attribute__((noinline)) static enum kv_status
send_when_there_is_room(struct connection *connection, mqd_t lane, struct kv_slice message,
                        uint64_t deadline_ms)
{
    for (;;) {
        uint64_t now_ms = clock_monotonic_coarse_ms();
        uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
        if (wire_send(lane, message.data, message.size, priority_to_send(connection),
                      left_ms < SEND_SLICE_MS ? left_ms : SEND_SLICE_MS) == 0)
            return KV_OK;
        if (errno != ETIMEDOUT)
            return KV_IO;
        connection->full_lane = lane;
        if (server_ended(connection) || wire_queue_unlinked(lane))
            return KV_NO_SERVER;
        if (left_ms <= SEND_SLICE_MS || client_settings_interrupted(connection->settings))
            return KV_TIMEOUT;
    }
}

enum kv_status connection_send(struct connection *connection, const void *message, size_t size,
                               uint64_t deadline_ms)
{
    mqd_t lane = size <= connection->welcome.lane_bytes ? connection->lane : connection->bulk_lane;
    if (mq_send(lane, message, size, priority_to_send(connection)) == 0)
        return KV_OK;
    return send_when_there_is_room(connection, lane, kv_slice(message, size), deadline_ms);
}

/* A wire_attempt: the next message into connection->received. */
static ssize_t receive_now(void *context)
{
    struct connection *connection = context;
    ssize_t got;
    if (connection->ring) {
        got = wire_ring_take(connection->ring, connection->received);
        connection->received_bytes = got > 0 ? (size_t)got : 0;
        return got;
    }
    do
        got = mq_receive(connection->reply_queue, (char *)connection->received,
                         connection->reply_geometry.message_bytes, NULL);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    connection->received_bytes = (size_t)got;
    return got > 0 ? got : 1; /* an empty message counts as a message, and is dropped later */
}

/* How long to sleep before the next check. */
static uint32_t look_after_ms(const struct connection *connection)
{
    if (connection->pidfd < 0 || connection->settings->interrupted)
        return LOOK_AFTER_MS;
    return connection->ring ? LOOK_AFTER_AT_RING_MS : LOOK_AFTER_WITH_PIDFD_MS;
}

/* KV_OK: a message may be there; KV_NO_SERVER: the server has ended; KV_TIMEOUT. */
static enum kv_status sleep_at_queue(const struct connection *connection, uint64_t sleep_ms)
{
    struct pollfd events[] = {{.fd = (int)connection->reply_queue, .events = POLLIN},
                              {.fd = connection->pidfd, .events = POLLIN}};
    int ready = poll(events, connection->pidfd >= 0 ? 2 : 1, (int)sleep_ms);
    if (ready <= 0)
        return KV_TIMEOUT;
    return events[0].revents == 0 ? KV_NO_SERVER : KV_OK;
}

/* Sleeps until a message may be there, or until *look_ms (0: to be chosen), when it checks whether
 * the wait is to go on; signals that end a sleep early do not postpone the check. KV_OK: try again;
 * KV_TIMEOUT: the deadline, or an interruption; KV_NO_SERVER: the server has ended, KV_NO_SESSION:
 * it has ended the session, but either may have answered before. */
static enum kv_status sleep_for_message(struct connection *connection, uint64_t deadline_ms,
                                        uint64_t *look_ms)
{
    if (connection->ring && wire_ring_has_ended(connection->ring))
        return KV_NO_SESSION;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (now_ms >= deadline_ms)
        return KV_TIMEOUT;
    if (*look_ms == 0)
        *look_ms = now_ms + look_after_ms(connection);
    uint64_t until_ms = *look_ms < deadline_ms ? *look_ms : deadline_ms;
    uint64_t sleep_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    enum kv_status status = KV_TIMEOUT;
    if (connection->ring)
        wire_ring_sleep(connection->ring, (uint32_t)sleep_ms);
    else
        status = sleep_at_queue(connection, sleep_ms);
    if (status != KV_TIMEOUT)
        return status;
    if (clock_monotonic_coarse_ms() < *look_ms)
        return KV_OK;
    *look_ms = 0;
    if ((connection->pidfd < 0 || connection->ring) && server_ended(connection))
        return KV_NO_SERVER;
    return client_settings_interrupted(connection->settings) ? KV_TIMEOUT : KV_OK;
}

/* Waits for bytes in connection->received after polling. */
__attribute__((noinline)) static enum kv_status sleep_and_receive(struct connection *connection,
                                                                  uint64_t deadline_ms)
{
    uint64_t look_ms = 0;
    for (;;) {
        enum kv_status status = sleep_for_message(connection, deadline_ms, &look_ms);
        bool may_have_answered = status == KV_NO_SERVER || status == KV_NO_SESSION;
        if (may_have_answered && receive_now(connection) > 0)
            return KV_OK;
        if (status != KV_OK)
            return status;
        ssize_t got = wire_wait(&connection->waiter, receive_now, connection);
        if (got != 0)
            return got > 0 ? KV_OK : KV_IO;
    }
}

/* Waits for bytes in connection->received. */
static enum kv_status receive_bytes(struct connection *connection, uint64_t deadline_ms)
{
    ssize_t got = wire_wait(&connection->waiter, receive_now, connection);
    if (got == 0)
        return sleep_and_receive(connection, deadline_ms);
    return got > 0 ? KV_OK : KV_IO;
}

/* A refusal by a server of another version has this version's form, but for the version number. */
static bool is_understood(enum kv_status status, const struct wire_header *header)
{
    return status == KV_OK || (status == KV_UNSUPPORTED && header->kind == WIRE_REFUSED);
}

/* Another process than the server has the queue open: it must be replaced. If the process filled
 * it, the server may have ended the session because an answer did not fit. */
static void note_garbage(struct connection *connection, uint64_t now_ms)
{
    connection->suspect = true;
    if (++connection->garbage == connection->reply_geometry.depth)
        connection->filled_ms = now_ms;
}

static void note_answer(struct connection *connection, uint64_t now_ms)
{
    connection->heard_ms = now_ms;
    connection->garbage = 0;
    connection->filled_ms = 0;
    if (connection->unanswered > 0)
        connection->unanswered--;
}

enum kv_status connection_receive(struct connection *connection, uint64_t deadline_ms,
                                  struct wire_header *header, struct read_cursor *body)
{
    for (;;) {
        uint64_t until_ms = deadline_ms;
        if (connection->filled_ms > 0 && connection->filled_ms + FILLED_PATIENCE_MS < until_ms)
            until_ms = connection->filled_ms + FILLED_PATIENCE_MS;
        enum kv_status status = receive_bytes(connection, until_ms);
        if (status == KV_TIMEOUT && until_ms < deadline_ms &&
            !client_settings_interrupted(connection->settings))
            return KV_NO_SESSION;
        if (status != KV_OK)
            return status;
        *body = read_cursor(connection->received, connection->received_bytes);
        bool understood = is_understood(wire_get_header(body, header), header);
        uint64_t now_ms = clock_monotonic_coarse_ms();
        if (understood && header->secret == connection->nonce) {
            note_answer(connection, now_ms);
            connection->moved |= header->kind == WIRE_REPLY && (header->flags & WIRE_REPLY_MOVED);
            return KV_OK;
        }
        note_garbage(connection, now_ms);
        if (now_ms >= deadline_ms)
            return KV_TIMEOUT;
    }
}

void connection_init(struct connection *connection, const struct client_settings *settings,
                     const struct wire_geometry *ladder)
{
    *connection = (struct connection){.settings = settings,
                                      .priority = settings->priority,
                                      .reply_ladder = ladder,
                                      .reply_queue = (mqd_t)-1,
                                      .lane = (mqd_t)-1,
                                      .bulk_lane = (mqd_t)-1,
                                      .pidfd = -1,
                                      .epoll = -1,
                                      .full_lane = (mqd_t)-1};
    wire_waiter_init(&connection->waiter, settings->spin);
    wire_waiter_allow_short_slices(&connection->waiter);
}

void connection_say_bye(struct connection *connection)
{
    uint8_t message[WIRE_HEADER_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = WIRE_BYE,
                                 .session = connection->session,
                                 .request_id = connection->next_request_id++,
                                 .secret = connection->welcome.cookie};
    wire_put_header(&cursor, &header);
    wire_send(connection->lane, message, sizeof message, priority_to_send(connection), 0);
}

void connection_close_queue(mqd_t *queue)
{
    if (*queue != (mqd_t)-1)
        close((int)*queue);
    *queue = (mqd_t)-1;
}

static bool watch(int set, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = descriptor};
    if (descriptor < 0 || epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0)
        return true;
    return errno == EEXIST && epoll_ctl(set, EPOLL_CTL_MOD, descriptor, &event) == 0;
}

bool connection_watch(struct connection *connection)
{
    int set = connection->epoll;
    mqd_t full_lane = connection->full_lane;
    connection->full_lane = (mqd_t)-1;
    bool lane_is_open = full_lane == connection->lane || full_lane == connection->bulk_lane;
    if (lane_is_open && !watch(set, (int)full_lane, EPOLLOUT | EPOLLONESHOT))
        return false;
    if (connection->watched || connection->reply_queue == (mqd_t)-1)
        return true;
    connection->watched =
        watch(set, (int)connection->reply_queue, EPOLLIN) && watch(set, connection->pidfd, EPOLLIN);
    return connection->watched;
}

/* By hand: a child of fork(2) may hold them open, and they would stay in the set. */
static void unwatch(struct connection *connection)
{
    if (connection->epoll >= 0) {
        epoll_ctl(connection->epoll, EPOLL_CTL_DEL, (int)connection->reply_queue, NULL);
        epoll_ctl(connection->epoll, EPOLL_CTL_DEL, connection->pidfd, NULL);
    }
    connection->watched = false;
    connection->full_lane = (mqd_t)-1;
}

bool connection_stays_filled(const struct connection *connection)
{
    return connection->filled_ms > 0 &&
           clock_monotonic_coarse_ms() >= connection->filled_ms + FILLED_PATIENCE_MS;
}

void connection_close(struct connection *connection, bool say_goodbye)
{
    if (connection->open && say_goodbye)
        connection_say_bye(connection);
    unwatch(connection);
    if (connection->bulk_lane == connection->lane)
        connection->bulk_lane = (mqd_t)-1;
    connection_close_queue(&connection->bulk_lane);
    connection_close_queue(&connection->lane);
    wire_ring_close(connection->ring);
    connection->ring = NULL;
    connection_close_queue(&connection->reply_queue);
    if (connection->pidfd >= 0)
        close(connection->pidfd);
    connection->pidfd = -1;
    large_values_close(&connection->values);
    free(connection->received);
    connection->received = NULL;
    connection->unanswered = 0;
    connection->garbage = 0;
    connection->filled_ms = 0;
    connection->open = false;
    connection->suspect = false;
    connection->moved = false;
}

/* No answer is due that a new session would not get. */
static bool should_move(const struct connection *connection)
{
    return connection->moved && connection->unanswered == 0;
}

/* Whether the server still serves its lane; with system calls. */
__attribute__((noinline)) static bool look_for_server(const struct connection *connection)
{
    return !wire_queue_unlinked(connection->lane) && !server_ended(connection);
}

bool connection_server_gone(const struct connection *connection)
{
    return connection->heard_ms != clock_monotonic_coarse_ms() && !look_for_server(connection);
}

bool connection_usable(const struct connection *connection)
{
    return connection->open && !connection->suspect && !should_move(connection) &&
           !(connection->ring && wire_ring_has_ended(connection->ring)) &&
           !connection_server_gone(connection);
}
