#include "clientk/session/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"

/* How long a wait goes on before the client checks that the server still runs. A pidfd ends the
 * wait when the server ends, so with a pidfd the check is for what that does not tell. A program
 * with an `interrupted` function is asked as often as there is a check without a pidfd: a wait that
 * is answered within LOOK_AFTER_MS is never interrupted. */
#define LOOK_AFTER_MS            100u
#define LOOK_AFTER_WITH_PIDFD_MS 1000u
/* A client that sleeps at a ring is not woken when the server ends. */
#define LOOK_AFTER_AT_RING_MS    50u
/* How long a send sleeps before the same check. */
#define SEND_SLICE_MS            100u

/* How long to wait for an answer in flight once another process has filled the queue. */
#define FILLED_PATIENCE_MS 250u

/* What holds between the calls; for assertions. */
static bool is_consistent(const struct connection *connection)
{
    bool has_path = connection->reply_queue != (mqd_t)-1 && connection->received;
    bool has_lane = connection->lane != (mqd_t)-1 && connection->bulk_lane != (mqd_t)-1;
    return has_path && has_lane &&
           (!connection->open || connection->unanswered <= connection->welcome.credits) &&
           !(connection->ring && connection->epoll >= 0);
}

/* Returns true if the server's process has ended; if that cannot be seen: whether no process holds
 * the lock of its lane. */
static bool server_ended(const struct connection *connection)
{
    if (connection->pidfd < 0)
        return wire_queue_unlinked(connection->lane) || wire_lane_server(connection->lane) == 0;
    struct pollfd ended = {.fd = connection->pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}

/* The priority of the next message, by which the kernel orders every queue. A server that serves
 * all alike wants no priorities; but in a lane that others may have opened nothing of theirs may
 * come first. Before there is a session, only HELLO is sent. */
static unsigned priority_to_send(const struct connection *connection)
{
    const struct wire_welcome *welcome = &connection->welcome;
    if (!connection->open)
        return WIRE_HIGHEST_PRIORITY;
    if (!(welcome->flags & WIRE_WELCOME_PRIORITY))
        return welcome->lane_family == WIRE_FAMILY_GUESTS ? WIRE_HIGHEST_PRIORITY : 0;
    return atomic_load_explicit(&connection->priority, memory_order_relaxed);
}

/* Sends after the lane was full, or a signal came. */
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
    KV_ASSERT(is_consistent(connection) && size <= connection_message_bytes(connection));
    if (mq_send(lane, message, size, priority_to_send(connection)) == 0)
        return KV_OK;
    return send_when_there_is_room(connection, lane, kv_slice(message, size), deadline_ms);
}

/* A wire_attempt: receives the next message into connection->received. */
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
    return got > 0 ? got : 1; /* an empty message is a message, and garbage */
}

/* Sleeps until a message may be there, or until *look_ms (0: to be chosen), when it checks whether
 * to wait on; a signal that ends a sleep early does not postpone the check. KV_OK: try again;
 * KV_TIMEOUT: the deadline, or an interruption; KV_NO_SERVER: the server has ended, KV_NO_SESSION:
 * it has ended the session, but in both cases it may have answered before. */
static enum kv_status sleep_for_message(struct connection *connection, uint64_t deadline_ms,
                                        uint64_t *look_ms)
{
    if (connection->ring && wire_ring_has_ended(connection->ring))
        return KV_NO_SESSION;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (now_ms >= deadline_ms)
        return KV_TIMEOUT;
    if (*look_ms == 0)
        *look_ms =
            now_ms + (connection->pidfd < 0 || connection->settings->interrupted ? LOOK_AFTER_MS
                      : connection->ring ? LOOK_AFTER_AT_RING_MS
                                         : LOOK_AFTER_WITH_PIDFD_MS);
    uint64_t until_ms = *look_ms < deadline_ms ? *look_ms : deadline_ms;
    uint64_t sleep_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    if (connection->ring) {
        wire_ring_sleep(connection->ring, (uint32_t)sleep_ms);
    } else {
        struct pollfd events[] = {{.fd = (int)connection->reply_queue, .events = POLLIN},
                                  {.fd = connection->pidfd, .events = POLLIN}};
        if (poll(events, connection->pidfd >= 0 ? 2 : 1, (int)sleep_ms) > 0)
            return events[0].revents == 0 ? KV_NO_SERVER : KV_OK;
    }
    if (clock_monotonic_coarse_ms() < *look_ms)
        return KV_OK;
    *look_ms = 0;
    if ((connection->pidfd < 0 || connection->ring) && server_ended(connection))
        return KV_NO_SERVER;
    return client_settings_interrupted(connection->settings) ? KV_TIMEOUT : KV_OK;
}

/* Waits for a message in connection->received after polling was in vain. */
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

enum kv_status connection_receive(struct connection *connection, uint64_t deadline_ms,
                                  struct wire_header *header, struct read_cursor *body)
{
    KV_ASSERT(is_consistent(connection));
    for (;;) {
        uint64_t until_ms = deadline_ms;
        if (connection->filled_ms > 0 && connection->filled_ms + FILLED_PATIENCE_MS < until_ms)
            until_ms = connection->filled_ms + FILLED_PATIENCE_MS;
        ssize_t got = wire_wait(&connection->waiter, receive_now, connection);
        enum kv_status status = got > 0   ? KV_OK
                                : got < 0 ? KV_IO
                                          : sleep_and_receive(connection, until_ms);
        if (status == KV_TIMEOUT && until_ms < deadline_ms &&
            !client_settings_interrupted(connection->settings))
            return KV_NO_SESSION;
        if (status != KV_OK)
            return status;
        *body = read_cursor(connection->received, connection->received_bytes);
        /* A refusal by a server of another version differs from ours in the version number only. */
        status = wire_get_header(body, header);
        bool understood =
            status == KV_OK || (status == KV_UNSUPPORTED && header->kind == WIRE_REFUSED);
        uint64_t now_ms = clock_monotonic_coarse_ms();
        if (understood && header->secret == connection->nonce) {
            connection->heard_ms = now_ms;
            connection->garbage = 0;
            connection->filled_ms = 0;
            if (connection->unanswered > 0)
                connection->unanswered--;
            connection->moved |= header->kind == WIRE_REPLY && (header->flags & WIRE_REPLY_MOVED);
            return KV_OK;
        }
        /* Another process than the server has the queue open, so the session must be replaced. If
         * that process filled the queue, an answer may not have fitted, and the server may have
         * ended the session. */
        connection->suspect = true;
        if (++connection->garbage == connection->reply_geometry.depth)
            connection->filled_ms = now_ms;
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

void connection_new_name(const struct connection *connection, enum wire_queue_role role,
                         char name[WIRE_QUEUE_NAME_BYTES])
{
    static atomic_uint next_number; /* of all handles: a process uses each name only once */
    wire_queue_name(name, connection->settings->queue, role, getpid(),
                    atomic_fetch_add(&next_number, 1));
}

void connection_say_bye(struct connection *connection)
{
    uint8_t message[WIRE_HEADER_BYTES];
    KV_ASSERT(connection->lane != (mqd_t)-1);
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

static bool epoll_set_add(int set, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = descriptor};
    if (descriptor < 0 || epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0)
        return true;
    return errno == EEXIST && epoll_ctl(set, EPOLL_CTL_MOD, descriptor, &event) == 0;
}

bool connection_join_epoll(struct connection *connection)
{
    int set = connection->epoll;
    KV_ASSERT(set >= 0 && !connection->ring);
    mqd_t full_lane = connection->full_lane;
    connection->full_lane = (mqd_t)-1;
    bool lane_is_open = full_lane == connection->lane || full_lane == connection->bulk_lane;
    if (lane_is_open && !epoll_set_add(set, (int)full_lane, EPOLLOUT | EPOLLONESHOT))
        return false;
    if (connection->in_epoll || connection->reply_queue == (mqd_t)-1)
        return true;
    connection->in_epoll = epoll_set_add(set, (int)connection->reply_queue, EPOLLIN) &&
                           epoll_set_add(set, connection->pidfd, EPOLLIN);
    return connection->in_epoll;
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
    /* A child of fork(2) may have the descriptors open, and they would stay in the set. */
    if (connection->epoll >= 0) {
        epoll_ctl(connection->epoll, EPOLL_CTL_DEL, (int)connection->reply_queue, NULL);
        epoll_ctl(connection->epoll, EPOLL_CTL_DEL, connection->pidfd, NULL);
    }
    connection->in_epoll = false;
    connection->full_lane = (mqd_t)-1;
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
    KV_ASSERT(connection->lane == (mqd_t)-1 && connection->bulk_lane == (mqd_t)-1);
}

/* Asks the kernel whether the server still serves its lane. */
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
    /* A session that is to move does so when no answer is due: a new session would not get it. */
    bool should_move = connection->moved && connection->unanswered == 0;
    return connection->open && !connection->suspect && !should_move &&
           !(connection->ring && wire_ring_has_ended(connection->ring)) &&
           !connection_server_gone(connection);
}
