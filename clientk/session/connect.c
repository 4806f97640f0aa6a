#include "clientk/session/connect.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clientk/session/connection.h"
#include "clientk/session/exchange.h"
#include "clientk/base/own_names.h"
#include "clientk/session/server_access.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/numbers/random.h"
#include "wire/stale_names.h"

/* How long HELLO may go unanswered before a check that its queue is still the server's. */
#define LOOK_AFTER_MS     100u
/* Names to try for the reply queue; one is taken only if a process of the same pid ended during its
 * handshake. */
#define NAME_ATTEMPTS     64u
/* How often in a row a lane may be closed before it was opened: the server waits 100 ms. */
#define LANES_MISSED      5u
/* The server gives the queues of sessions back a moment after their BYE, and what is refused for
 * want of bytes in queues may be had then. */
#define LIMIT_PATIENCE_MS 50u
#define LIMIT_STEP_MS     5u
/* Pauses between attempts to connect. */
#define FIRST_BACKOFF_MS  1u
#define MAX_BACKOFF_MS    100u

/* Whether the process lives in another PID namespace, as far as /proc tells. */
static bool is_in_other_pid_namespace(pid_t pid)
{
    char path[64], own[64] = "", other[64] = "";
    snprintf(path, sizeof path, "/proc/%ld/ns/pid", (long)pid);
    return readlink("/proc/self/ns/pid", own, sizeof own - 1) > 0 &&
           readlink(path, other, sizeof other - 1) > 0 && strcmp(own, other) != 0;
}

/* Explains why a running server does not answer; server_pid 0: its pid is not visible here. */
static enum kv_status explain_silence(const struct connection *connection, enum kv_status status,
                                      const char *what, struct kv_error *error)
{
    const char *queue = connection->settings->queue;
    pid_t server = (pid_t)connection->welcome.server_pid;
    if (server == 0)
        return kv_error_set(
            error, status,
            "the server of %s %s; and this process cannot see it: " WIRE_PID_NAMESPACE_ADVICE,
            queue, what);
    if (is_in_other_pid_namespace(server))
        return kv_error_set(error, status,
                            "the server of %s (pid %ld here) %s; "
                            "and it cannot see this process: " WIRE_PID_NAMESPACE_ADVICE,
                            queue, (long)server, what);
    return kv_error_set(error, status, "the server of %s (pid %ld) %s: it is stopped or overloaded",
                        queue, (long)server, what);
}

/* Creates the queue under a name that is not taken. */
static enum kv_status create_reply_queue(struct connection *connection,
                                         char name[WIRE_QUEUE_NAME_BYTES], struct kv_error *error)
{
    enum kv_status status = KV_EXISTS;
    for (unsigned i = 0; i < NAME_ATTEMPTS && status == KV_EXISTS; i++) {
        name_of_own(name, connection->settings->queue, WIRE_REPLY_QUEUE);
        status =
            wire_queue_create_ladder(name, connection->reply_ladder, 0600, true,
                                     &connection->reply_queue, &connection->reply_geometry, error);
    }
    return status;
}

/* Creates the reply queue and writes its name to `name`. */
static enum kv_status make_reply_queue(struct connection *connection,
                                       char name[WIRE_QUEUE_NAME_BYTES], uint64_t deadline_ms,
                                       struct kv_error *error)
{
    enum kv_status status = create_reply_queue(connection, name, error);
    uint64_t patience_ms = clock_monotonic_coarse_ms() + LIMIT_PATIENCE_MS;
    while (status == KV_LIMIT &&
           clock_monotonic_coarse_ms() < (deadline_ms < patience_ms ? deadline_ms : patience_ms)) {
        if (!wire_stale_names_remove_again(connection->settings->queue))
            clock_sleep_ms(LIMIT_STEP_MS);
        status = create_reply_queue(connection, name, error);
    }
    if (status == KV_EXISTS)
        return kv_error_set(error, KV_LIMIT,
                            "%u names of reply queues up to %s are taken: remove what dead "
                            "processes left (ls -l /dev/mqueue)",
                            NAME_ATTEMPTS, name);
    if (status != KV_OK)
        return status;
    connection->received = wire_queue_buffer(connection->reply_geometry.message_bytes);
    if (connection->received && wire_lock_queue(connection->reply_queue, NULL) == 0) {
        /* The server must be able to write, and no other process to read. */
        pid_t server = (pid_t)connection->welcome.server_pid;
        status = server_access_grant(connection->reply_queue,
                                     server_access_needed(connection->lane, server), error);
        if (status != KV_OK)
            mq_unlink(name);
        return status;
    }
    status = connection->received
                 ? kv_error_set_errno(error, "cannot lock the reply queue %s", name)
                 : kv_error_set(error, KV_NO_MEMORY, "no memory for a session");
    mq_unlink(name);
    return status;
}

/* Waits until wait_ms for room in the lane. */
static enum kv_status send_hello(struct connection *connection, const char *reply_queue,
                                 uint64_t deadline_ms, uint64_t wait_ms, struct kv_error *error)
{
    uint8_t message[WIRE_HEADER_BYTES + WIRE_QUEUE_NAME_BYTES + 64];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = WIRE_HELLO,
                                 .request_id = connection->next_request_id++,
                                 .deadline_ms = deadline_ms};
    struct wire_hello hello = {.nonce = connection->nonce,
                               .pid = (uint32_t)getpid(),
                               .reply_depth = connection->reply_geometry.depth,
                               .threads = 1,
                               .reply_bytes = connection->reply_geometry.message_bytes,
                               .reply_queue = kv_slice_from_string(reply_queue),
                               .abilities = WIRE_HELLO_GUEST_LANES};
    wire_put_header(&cursor, &header);
    wire_put_hello(&cursor, &hello);
    enum kv_status status =
        connection_send(connection, message, write_cursor_used(&cursor), wait_ms);
    if (status == KV_OK)
        return KV_OK;
    const char *queue = connection->settings->queue;
    if (status == KV_TIMEOUT)
        return explain_silence(connection, status, "does not read its queue, which is full", error);
    if (status == KV_NO_SERVER)
        return kv_error_set(error, status, "the server of %s has just ended", queue);
    return kv_error_set_errno(error, "cannot send to the message queue %s", queue);
}

static enum kv_status read_refusal(const struct wire_header *header, struct read_cursor *body,
                                   const char *queue, struct kv_error *error)
{
    enum kv_status status = header->status != KV_OK ? header->status : KV_DENIED;
    size_t size = read_cursor_left(body);
    const char *sentence = (const char *)read_bytes(body, size);
    if (status == KV_UNSUPPORTED)
        return kv_error_set(error, status,
                            "the server of %s refused this client (mqkv " MQKV_VERSION
                            ", version %u of the protocol): %.*s",
                            queue, WIRE_VERSION, (int)size, sentence ? sentence : "");
    return kv_error_set(error, status, "the server of %s refused: %.*s", queue, (int)size,
                        sentence ? sentence : "");
}

/* Reads the answer to HELLO. */
static enum kv_status read_answer(struct connection *connection, const struct wire_header *header,
                                  struct read_cursor *body, struct kv_error *error)
{
    const char *queue = connection->settings->queue;
    if (header->kind == WIRE_REFUSED)
        return read_refusal(header, body, queue, error);
    struct wire_welcome *welcome = &connection->welcome;
    if (header->kind != WIRE_WELCOME || wire_get_welcome(body, welcome) != KV_OK ||
        welcome->credits == 0 || welcome->lane_bytes <= WIRE_HEADER_BYTES)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "the server of %s answered the handshake with something that this "
                            "version of libclientk (" MQKV_VERSION
                            ", version %u of the protocol) does not understand",
                            queue, WIRE_VERSION);
    connection->session = header->session;
    if (welcome->credits > connection->reply_geometry.depth)
        welcome->credits = connection->reply_geometry.depth;
    return KV_OK;
}

/* What became of a wait for the answer to HELLO, if it is no answer. KV_OK: wait on. */
static enum kv_status judge_silence(const struct connection *connection, enum kv_status status,
                                    bool time_is_over, struct kv_error *error)
{
    const char *queue = connection->settings->queue;
    if (status == KV_NO_SERVER || wire_queue_unlinked(connection->lane))
        return kv_error_set(error, KV_NO_SERVER, "the server of %s ended during the handshake",
                            queue);
    if (status == KV_NO_SESSION)
        return kv_error_set(error, status, "another process fills the reply queue");
    if (status != KV_TIMEOUT)
        return kv_error_set_errno(error, "cannot receive from the reply queue");
    if (time_is_over || client_settings_interrupted(connection->settings))
        return explain_silence(connection, KV_TIMEOUT, "has not answered the handshake", error);
    return KV_OK;
}

/* Waits for the answer while the queue that HELLO was sent to is the server's. */
static enum kv_status await_answer(struct connection *connection, uint64_t deadline_ms,
                                   struct kv_error *error)
{
    for (;;) {
        uint64_t look_ms = clock_monotonic_coarse_ms() + LOOK_AFTER_MS;
        struct wire_header header;
        struct read_cursor body;
        enum kv_status status = connection_receive(
            connection, look_ms < deadline_ms ? look_ms : deadline_ms, &header, &body);
        if (status == KV_OK)
            return read_answer(connection, &header, &body, error);
        status = judge_silence(connection, status, look_ms >= deadline_ms, error);
        if (status != KV_OK)
            return status;
    }
}

/* Another user may create queues with the names of a server that does not run. */
static enum kv_status check_server_uid(const struct connection *connection, struct kv_error *error)
{
    const struct client_settings *settings = connection->settings;
    unsigned uid = connection->server_uid;
    if (!settings->insists_on_uid || connection->server_uid == settings->server_uid)
        return KV_OK;
    if (settings->uid_was_met)
        return kv_error_set(
            error, KV_DENIED,
            "the message queue %s belongs to uid %u now; when this handle was opened "
            "it was uid %u: another user has taken the name; nothing was sent to it "
            "(clientk doctor shows who; a new handle would connect to it)",
            settings->queue, uid, (unsigned)settings->server_uid);
    return kv_error_set(
        error, KV_DENIED,
        "the message queue %s belongs to uid %u, not to uid %u, which the server must have "
        "(server_uid, MQKV_SERVER_UID): nothing was sent",
        settings->queue, uid, (unsigned)settings->server_uid);
}

/* Opens lane 0 and finds out who serves it. */
static enum kv_status find_server(struct connection *connection, struct kv_error *error)
{
    const char *queue = connection->settings->queue;
    struct wire_geometry lane_geometry;
    enum kv_status status = wire_queue_open(queue, true, &connection->lane, &lane_geometry, error);
    if (status != KV_OK)
        return status;
    connection->bulk_lane = connection->lane;
    connection->server_uid = wire_queue_uid(connection->lane);
    status = check_server_uid(connection, error);
    if (status != KV_OK)
        return status;
    connection->welcome = (struct wire_welcome){.lane_bytes = lane_geometry.message_bytes};
    pid_t server = 0;
    connection->pidfd = wire_queue_owner_pidfd(connection->lane, &server);
    bool seen = connection->pidfd >= 0 || (server = wire_lane_server(connection->lane)) >= 0;
    connection->welcome.server_pid = seen ? (uint32_t)server : 0;
    if (seen && server == 0)
        return kv_error_set(
            error, KV_NO_SERVER,
            "the message queue %s exists, but its server has ended without removing "
            "it: start serverk -m %s",
            queue, queue);
    return KV_OK;
}

/* Opens one of the session's lanes, which must belong to the owner of lane 0; a guest lane may also
 * be our own. */
static enum kv_status open_lane(const struct connection *connection, enum wire_queue_role role,
                                unsigned number, mqd_t *lane, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, connection->settings->queue, role, 0, number);
    mqd_t opened;
    enum kv_status status = wire_queue_open(name, true, &opened, NULL, error);
    if (status != KV_OK)
        return status;
    uid_t uid = wire_queue_uid(opened);
    if (uid == connection->server_uid || (role == WIRE_GUEST_LANE && uid == geteuid())) {
        *lane = opened;
        return KV_OK;
    }
    connection_close_queue(&opened);
    return kv_error_set(
        error, KV_DENIED,
        "the message queue %s belongs to uid %u, and %s to uid %u: they do not belong to one "
        "server, and nothing was sent",
        name, (unsigned)uid, connection->settings->queue, (unsigned)connection->server_uid);
}

/* Opens the session's lanes, in place of lane 0. */
static enum kv_status open_lanes(struct connection *connection, struct kv_error *error)
{
    const struct wire_welcome *welcome = &connection->welcome;
    bool guest = welcome->lane_family == WIRE_FAMILY_GUESTS;
    if (guest || welcome->lane != 0) {
        mqd_t lane = (mqd_t)-1;
        enum kv_status status =
            open_lane(connection, guest ? WIRE_GUEST_LANE : WIRE_LANE, welcome->lane, &lane, error);
        /* It is open to us for a moment only; a new session gets another lane. */
        if (guest && status == KV_DENIED && connection->lanes_missed++ < LANES_MISSED)
            return kv_error_set(
                error, KV_NO_SESSION,
                "the server of %s closed the lane of this session before it was opened",
                connection->settings->queue);
        connection->lanes_missed = 0;
        if (status != KV_OK)
            return status;
        connection_close_queue(&connection->lane);
        connection->lane = lane;
        connection->bulk_lane = lane;
    }
    if (welcome->bulk_bytes <= welcome->lane_bytes)
        return KV_OK;
    return open_lane(connection, WIRE_BULK_LANE, welcome->bulk_lane, &connection->bulk_lane, error);
}

static enum kv_status judge_first_request(const struct connection *connection,
                                          enum kv_status status, struct kv_error *error)
{
    if (status == KV_TIMEOUT)
        return explain_silence(connection, status, "has not answered the first request", error);
    if (status == KV_OK || status == KV_NO_SESSION)
        return status;
    return kv_error_set(error, status, "the server of %s ended during the handshake",
                        connection->settings->queue);
}

/* A guest lane may be open to others until a message arrives through it: send an empty request at
 * once. */
static enum kv_status close_lane_to_others(struct connection *connection, uint64_t deadline_ms,
                                           struct kv_error *error)
{
    if (connection->welcome.lane_family != WIRE_FAMILY_GUESTS)
        return KV_OK;
    struct exchange exchange = {.message = NULL};
    enum kv_status status =
        exchange_control(&exchange, connection, WIRE_REQUEST, kv_slice(NULL, 0), deadline_ms);
    exchange_free(&exchange);
    return judge_first_request(connection, status, error);
}

static enum kv_status handshake(struct connection *connection, uint64_t deadline_ms,
                                struct kv_error *error)
{
    connection->session = 0;
    enum kv_status status = find_server(connection, error);
    if (status != KV_OK)
        return status;
    char name[WIRE_QUEUE_NAME_BYTES];
    status = make_reply_queue(connection, name, deadline_ms, error);
    if (status != KV_OK)
        return status;
    connection->nonce = random_secret();
    connection->next_request_id = 1;
    status = send_hello(connection, name, deadline_ms, deadline_ms, error);
    if (status == KV_OK)
        status = await_answer(connection, deadline_ms, error);
    mq_unlink(name);
    if (status == KV_OK)
        status = open_lanes(connection, error);
    if (status == KV_OK)
        status = close_lane_to_others(connection, deadline_ms, error);
    return status;
}

/* The pause before the next attempt, longer each time. */
static void lengthen_backoff(struct connection *connection)
{
    uint32_t backoff_ms = connection->backoff_ms ? connection->backoff_ms * 2 : FIRST_BACKOFF_MS;
    connection->backoff_ms = backoff_ms < MAX_BACKOFF_MS ? backoff_ms : MAX_BACKOFF_MS;
}

/* Sleeps before the next attempt. False: the deadline has come, or the wait was interrupted. */
static bool back_off(struct connection *connection, uint64_t deadline_ms)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (now_ms >= deadline_ms || client_settings_interrupted(connection->settings))
        return false;
    lengthen_backoff(connection);
    uint64_t left_ms = deadline_ms - now_ms;
    clock_sleep_ms(connection->backoff_ms < left_ms ? connection->backoff_ms : left_ms);
    return true;
}

static void note_open(struct connection *connection)
{
    connection->open = true;
    connection->backoff_ms = 0;
    connection->handshakes++;
}

static void close_unopened(struct connection *connection)
{
    if (connection->session != 0)
        connection_say_bye(connection); /* to lane 0, if it has no other */
    connection_close(connection, false);
}

bool session_may_come(const struct connection *connection, enum kv_status status)
{
    return status == KV_NO_SESSION || (status == KV_NO_SERVER && !connection->settings->fail_fast);
}

enum kv_status connection_open(struct connection *connection, uint64_t deadline_ms,
                               struct kv_error *error)
{
    if (connection->open) {
        if (connection_usable(connection))
            return KV_OK;
        connection_close(connection, !connection_server_gone(connection));
    }
    for (;;) {
        enum kv_status status = handshake(connection, deadline_ms, error);
        if (status == KV_OK) {
            note_open(connection);
            return KV_OK;
        }
        close_unopened(connection);
        if (!session_may_come(connection, status) || !back_off(connection, deadline_ms))
            return status;
    }
}

/* Without waiting ------------------------------------------------------------------------------ */

/* Each step: KV_OK with another phase, or with attempt->waits; or the failure. */

static enum kv_status begin_attempt(struct connection *connection, struct session_attempt *attempt,
                                    struct kv_error *error)
{
    connection->session = 0;
    attempt->deadline_ms = clock_monotonic_coarse_ms() + connection->settings->timeout_ms;
    enum kv_status status = find_server(connection, error);
    if (status == KV_OK)
        status = make_reply_queue(connection, attempt->reply_queue, 0, error);
    if (status != KV_OK)
        return status;
    connection->nonce = random_secret();
    connection->next_request_id = 1;
    attempt->phase = SESSION_TO_GREET;
    return KV_OK;
}

static enum kv_status greet(struct connection *connection, struct session_attempt *attempt,
                            struct kv_error *error)
{
    enum kv_status status =
        send_hello(connection, attempt->reply_queue, attempt->deadline_ms, 0, error);
    if (status == KV_OK)
        attempt->phase = SESSION_GREETED;
    attempt->waits = status == KV_TIMEOUT && clock_monotonic_coarse_ms() < attempt->deadline_ms;
    return attempt->waits ? KV_OK : status;
}

static enum kv_status await_welcome(struct connection *connection, struct session_attempt *attempt,
                                    struct kv_error *error)
{
    struct wire_header header;
    struct read_cursor body;
    enum kv_status status = connection_receive(connection, 0, &header, &body);
    if (status != KV_OK) {
        bool time_is_over = clock_monotonic_coarse_ms() >= attempt->deadline_ms;
        status = judge_silence(connection, status, time_is_over, error);
        attempt->waits = status == KV_OK;
        return status;
    }
    status = read_answer(connection, &header, &body, error);
    mq_unlink(attempt->reply_queue);
    attempt->phase = SESSION_TO_PROVE;
    if (status == KV_OK)
        status = open_lanes(connection, error);
    if (status == KV_OK && connection->welcome.lane_family == WIRE_FAMILY_GUESTS)
        status = exchange_control_begin(&attempt->exchange, connection, WIRE_REQUEST,
                                        kv_slice(NULL, 0), attempt->deadline_ms, attempt->message);
    return status;
}

/* As close_lane_to_others. */
static enum kv_status prove(struct connection *connection, struct session_attempt *attempt,
                            struct kv_error *error)
{
    enum kv_status status = KV_OK;
    if (connection->welcome.lane_family == WIRE_FAMILY_GUESTS)
        status = exchange_continue(&attempt->exchange, connection, 0);
    attempt->waits = status == KV_TIMEOUT && clock_monotonic_coarse_ms() < attempt->deadline_ms;
    if (attempt->waits)
        return KV_OK;
    if (status != KV_OK)
        return judge_first_request(connection, status, error);
    exchange_free(&attempt->exchange);
    attempt->phase = SESSION_TO_BEGIN;
    note_open(connection);
    return KV_OK;
}

static enum kv_status step(struct connection *connection, struct session_attempt *attempt,
                           struct kv_error *error)
{
    switch (attempt->phase) {
    case SESSION_TO_BEGIN:
        return begin_attempt(connection, attempt, error);
    case SESSION_TO_GREET:
        return greet(connection, attempt, error);
    case SESSION_GREETED:
        return await_welcome(connection, attempt, error);
    case SESSION_TO_PROVE:
        break;
    }
    return prove(connection, attempt, error);
}

enum kv_status session_continue(struct connection *connection, struct session_attempt *attempt,
                                struct kv_error *error)
{
    enum kv_status status = KV_OK;
    attempt->waits = false;
    while (status == KV_OK && !connection->open && !attempt->waits)
        status = step(connection, attempt, error);
    if (status == KV_OK)
        return KV_OK;
    session_drop(connection, attempt);
    lengthen_backoff(connection);
    return status;
}

void session_drop(struct connection *connection, struct session_attempt *attempt)
{
    if (attempt->phase == SESSION_TO_GREET || attempt->phase == SESSION_GREETED)
        mq_unlink(attempt->reply_queue);
    exchange_free(&attempt->exchange);
    attempt->phase = SESSION_TO_BEGIN;
    attempt->waits = false;
    close_unopened(connection);
}
