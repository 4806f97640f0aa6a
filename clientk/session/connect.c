#include "clientk/session/connect.h"

#include "clientk/session/handshake.h"
#include "clientk/session/reply_path.h"
#include "common/assert/assert.h"
#include "common/numbers/random.h"
#include "common/time/clock.h"

/* How long HELLO may go unanswered before a check that its queue is still the server's. */
#define LOOK_AFTER_MS    100u
/* Pauses between attempts to connect. */
#define FIRST_BACKOFF_MS 1u
#define MAX_BACKOFF_MS   100u

/* The pause before the next attempt, longer each time. */
static void lengthen_backoff(struct connection *connection)
{
    uint32_t backoff_ms = connection->backoff_ms ? connection->backoff_ms * 2 : FIRST_BACKOFF_MS;
    connection->backoff_ms = backoff_ms < MAX_BACKOFF_MS ? backoff_ms : MAX_BACKOFF_MS;
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
        connection_say_bye(connection); /* on lane 0, if no other is open */
    connection_close(connection, false);
}

bool session_failure_may_pass(const struct connection *connection, enum kv_status status)
{
    return status == KV_NO_SESSION || (status == KV_NO_SERVER && !connection->settings->fail_fast);
}

/* With waiting --------------------------------------------------------------------------------- */

/* Waits for the answer to HELLO while the queue that it was sent to is the server's. */
static enum kv_status await_welcome(struct connection *connection, uint64_t deadline_ms,
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

/* Sends the first request, an empty one, at once: a guest lane may be open to others until a
 * message arrives through it. */
static enum kv_status close_lane_to_others(struct connection *connection, uint64_t deadline_ms,
                                           struct kv_error *error)
{
    struct round_trip round_trip = {.message = NULL};
    uint8_t message[ROUND_TRIP_CONTROL_BYTES];
    enum kv_status status = round_trip_control_begin(&round_trip, connection, WIRE_REQUEST,
                                                     kv_slice(NULL, 0), deadline_ms, message);
    if (status == KV_OK)
        status = round_trip_continue(&round_trip, connection, deadline_ms);
    round_trip_free(&round_trip);
    return handshake_judge_first_request(connection, status, error);
}

static enum kv_status shake_hands(struct connection *connection, uint64_t deadline_ms,
                                  struct kv_error *error)
{
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
        status = await_welcome(connection, deadline_ms, error);
    reply_path_unlink(connection, name);
    if (status == KV_OK)
        status = handshake_open_lanes(connection, error);
    if (status == KV_OK && connection->welcome.lane_family == WIRE_FAMILY_GUESTS)
        status = close_lane_to_others(connection, deadline_ms, error);
    return status;
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
        enum kv_status status = shake_hands(connection, deadline_ms, error);
        if (status == KV_OK) {
            note_open(connection);
            return KV_OK;
        }
        close_unopened(connection);
        uint64_t now_ms = clock_monotonic_coarse_ms();
        if (!session_failure_may_pass(connection, status) || now_ms >= deadline_ms ||
            client_settings_interrupted(connection->settings)) {
            /* The caller knows no session yet: there was not enough time for one. */
            if (status == KV_NO_SESSION && error)
                error->status = KV_TIMEOUT;
            return status == KV_NO_SESSION ? KV_TIMEOUT : status;
        }
        lengthen_backoff(connection);
        uint64_t left_ms = deadline_ms - now_ms;
        clock_sleep_ms(connection->backoff_ms < left_ms ? connection->backoff_ms : left_ms);
    }
}

/* Without waiting ------------------------------------------------------------------------------ */

/* Each step returns KV_OK with another phase or with attempt->waits, or the failure. */

static enum kv_status attempt_begin(struct connection *connection, struct session_attempt *attempt,
                                    struct kv_error *error)
{
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

static enum kv_status attempt_greet(struct connection *connection, struct session_attempt *attempt,
                                    struct kv_error *error)
{
    enum kv_status status =
        handshake_send_hello(connection, attempt->reply_queue, attempt->deadline_ms, 0, error);
    if (status == KV_OK)
        attempt->phase = SESSION_GREETED;
    attempt->waits = status == KV_TIMEOUT && clock_monotonic_coarse_ms() < attempt->deadline_ms;
    return attempt->waits ? KV_OK : status;
}

static enum kv_status attempt_read_welcome(struct connection *connection,
                                           struct session_attempt *attempt, struct kv_error *error)
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
        status =
            round_trip_control_begin(&attempt->round_trip, connection, WIRE_REQUEST,
                                     kv_slice(NULL, 0), attempt->deadline_ms, attempt->message);
    return status;
}

/* Does close_lane_to_others for the attempt. */
static enum kv_status attempt_close_lane(struct connection *connection,
                                         struct session_attempt *attempt, struct kv_error *error)
{
    enum kv_status status = KV_OK;
    if (connection->welcome.lane_family == WIRE_FAMILY_GUESTS)
        status = round_trip_continue(&attempt->round_trip, connection, 0);
    attempt->waits = status == KV_TIMEOUT && clock_monotonic_coarse_ms() < attempt->deadline_ms;
    if (attempt->waits)
        return KV_OK;
    if (status != KV_OK)
        return handshake_judge_first_request(connection, status, error);
    round_trip_free(&attempt->round_trip);
    attempt->phase = SESSION_TO_BEGIN;
    note_open(connection);
    return KV_OK;
}

enum kv_status session_attempt_continue(struct connection *connection,
                                        struct session_attempt *attempt, struct kv_error *error)
{
    static enum kv_status (*const steps[])(struct connection *, struct session_attempt *,
                                           struct kv_error *) = {
        [SESSION_TO_BEGIN] = attempt_begin,
        [SESSION_TO_GREET] = attempt_greet,
        [SESSION_GREETED] = attempt_read_welcome,
        [SESSION_TO_PROVE] = attempt_close_lane};
    enum kv_status status = KV_OK;
    attempt->waits = false;
    while (status == KV_OK && !connection->open && !attempt->waits) {
        KV_ASSERT(attempt->phase <= SESSION_TO_PROVE);
        KV_ASSERT((attempt->phase == SESSION_TO_BEGIN) == (connection->reply_queue == (mqd_t)-1));
        status = steps[attempt->phase](connection, attempt, error);
    }
    if (status == KV_OK)
        return KV_OK;
    session_attempt_drop(connection, attempt);
    lengthen_backoff(connection);
    return status;
}

void session_attempt_drop(struct connection *connection, struct session_attempt *attempt)
{
    if (attempt->phase == SESSION_TO_GREET || attempt->phase == SESSION_GREETED)
        reply_path_unlink(connection, attempt->reply_queue);
    round_trip_free(&attempt->round_trip);
    attempt->phase = SESSION_TO_BEGIN;
    attempt->waits = false;
    close_unopened(connection);
}
