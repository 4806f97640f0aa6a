#include "clientk/session/connect.h"

#include "clientk/session/handshake.h"
#include "clientk/session/reply_path.h"
#include "common/numbers/random.h"
#include "common/time/clock.h"

/* How long HELLO may go unanswered before a check that its queue is still the server's. */
#define LOOK_AFTER_MS    100u
/* Pauses between attempts to connect. */
#define FIRST_BACKOFF_MS 1u
#define MAX_BACKOFF_MS   100u

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
            return handshake_read_answer(connection, &header, &body, error);
        status = handshake_judge_silence(connection, status, look_ms >= deadline_ms, error);
        if (status != KV_OK)
            return status;
    }
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
    return handshake_judge_first_request(connection, status, error);
}

static enum kv_status handshake(struct connection *connection, uint64_t deadline_ms,
                                struct kv_error *error)
{
    connection->session = 0;
    enum kv_status status = handshake_find_server(connection, error);
    if (status != KV_OK)
        return status;
    char name[WIRE_QUEUE_NAME_BYTES];
    status = reply_path_make(connection, name, deadline_ms, error);
    if (status != KV_OK)
        return status;
    connection->nonce = random_secret();
    connection->next_request_id = 1;
    status = handshake_send_hello(connection, name, deadline_ms, deadline_ms, error);
    if (status == KV_OK)
        status = await_answer(connection, deadline_ms, error);
    reply_path_unlink(connection, name);
    if (status == KV_OK)
        status = handshake_open_lanes(connection, error);
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

/* Who calls knows no session yet: the time was not enough for one. */
static enum kv_status tell_no_session(enum kv_status status, struct kv_error *error)
{
    if (status != KV_NO_SESSION)
        return status;
    if (error)
        error->status = KV_TIMEOUT;
    return KV_TIMEOUT;
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
            return tell_no_session(status, error);
    }
}

/* Without waiting ------------------------------------------------------------------------------ */

/* Each step: KV_OK with another phase, or with attempt->waits; or the failure. */

static enum kv_status begin_attempt(struct connection *connection, struct session_attempt *attempt,
                                    struct kv_error *error)
{
    connection->session = 0;
    attempt->deadline_ms = clock_monotonic_coarse_ms() + connection->settings->timeout_ms;
    enum kv_status status = handshake_find_server(connection, error);
    if (status == KV_OK)
        status = reply_path_make(connection, attempt->reply_queue, 0, error);
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
        handshake_send_hello(connection, attempt->reply_queue, attempt->deadline_ms, 0, error);
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
        status = handshake_judge_silence(connection, status, time_is_over, error);
        attempt->waits = status == KV_OK;
        return status;
    }
    status = handshake_read_answer(connection, &header, &body, error);
    reply_path_unlink(connection, attempt->reply_queue);
    attempt->phase = SESSION_TO_PROVE;
    if (status == KV_OK)
        status = handshake_open_lanes(connection, error);
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
        return handshake_judge_first_request(connection, status, error);
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
        reply_path_unlink(connection, attempt->reply_queue);
    exchange_free(&attempt->exchange);
    attempt->phase = SESSION_TO_BEGIN;
    attempt->waits = false;
    close_unopened(connection);
}
