#include "clientk/session/handshake.h"

#include <unistd.h>

#include "clientk/session/connection.h"
#include "common/assert/assert.h"
#include "common/report/error.h"
#include "wire/entrance.h"

/* How many lanes in a row may be closed before they were opened: the server waits 100 ms for
 * each. */
#define LANES_MISSED_MAX 5u

/* Checks that lane 0 belongs to the uid that the server must have: another user may create queues
 * with the names of a server that does not run. */
static enum kv_status check_lane_owner(const struct connection *connection, struct kv_error *error)
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

enum kv_status handshake_find_server(struct connection *connection, struct kv_error *error)
{
    const struct client_settings *settings = connection->settings;
    const char *queue = settings->queue;
    struct wire_geometry lane_geometry;
    bool reads_only;
    KV_ASSERT(!connection->open && connection->lane == (mqd_t)-1);
    connection->session = 0;
    enum kv_status status =
        wire_entrance_open(queue, settings->insists_on_uid ? &settings->server_uid : NULL,
                           &connection->lane, &lane_geometry, &reads_only, error);
    if (status != KV_OK)
        return status;
    connection->bulk_lane = connection->lane;
    connection->server_uid = wire_queue_uid(connection->lane);
    status = check_lane_owner(connection, error);
    if (status != KV_OK)
        return status;
    connection->welcome = (struct wire_welcome){.lane_bytes = lane_geometry.message_bytes};
    pid_t server = 0;
    connection->pidfd = wire_lane_server_pidfd(connection->lane, &server);
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

/* Explains why a running server does not answer; `what` it does not do. */
static enum kv_status explain_silence(const struct connection *connection, const char *what,
                                      struct kv_error *error)
{
    const char *queue = connection->settings->queue;
    if (wire_lane_server(connection->lane) < 0)
        return kv_error_set(error, KV_TIMEOUT,
                            "the server of %s (in a PID namespace that this process does not see) "
                            "%s: it is stopped or overloaded",
                            queue, what);
    return kv_error_set(error, KV_TIMEOUT,
                        "the server of %s (pid %ld) %s: it is stopped or overloaded", queue,
                        (long)connection->welcome.server_pid, what);
}

enum kv_status handshake_send_hello(struct connection *connection, const char *reply_queue,
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
        return explain_silence(connection, "does not read its queue, which is full", error);
    if (status == KV_NO_SERVER)
        return kv_error_set(error, status, "the server of %s has just ended", queue);
    return kv_error_set_errno(error, "cannot send to the message queue %s", queue);
}

enum kv_status handshake_judge_silence(const struct connection *connection, enum kv_status status,
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
        return explain_silence(connection, "has not answered the handshake", error);
    return KV_OK;
}

static enum kv_status explain_refusal(const struct wire_header *header, struct read_cursor *body,
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

enum kv_status handshake_read_answer(struct connection *connection,
                                     const struct wire_header *header, struct read_cursor *body,
                                     struct kv_error *error)
{
    const char *queue = connection->settings->queue;
    if (header->kind == WIRE_REFUSED)
        return explain_refusal(header, body, queue, error);
    struct wire_welcome *welcome = &connection->welcome;
    uint32_t seen_pid = welcome->server_pid; /* WELCOME has that of the server's PID namespace */
    if (header->kind != WIRE_WELCOME || wire_get_welcome(body, welcome) != KV_OK ||
        welcome->credits == 0 || welcome->lane_bytes <= WIRE_HEADER_BYTES)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "the server of %s answered the handshake with something that this "
                            "version of libclientk (" MQKV_VERSION
                            ", version %u of the protocol) does not understand",
                            queue, WIRE_VERSION);
    connection->session = header->session;
    if (seen_pid > 0)
        welcome->server_pid = seen_pid;
    if (welcome->credits > connection->reply_geometry.depth)
        welcome->credits = connection->reply_geometry.depth;
    struct wire_spin spin = connection->settings->spin;
    connection->waiter.spin =
        welcome->flags & WIRE_WELCOME_NETWORK ? wire_spin_for_network(spin) : spin;
    return KV_OK;
}

/* Opens one lane of the session. It must belong to the owner of lane 0; a guest lane may also be
 * our own. */
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

enum kv_status handshake_open_lanes(struct connection *connection, struct kv_error *error)
{
    const struct wire_welcome *welcome = &connection->welcome;
    bool guest = welcome->lane_family == WIRE_FAMILY_GUESTS;
    if (guest || welcome->lane != 0) {
        mqd_t lane = (mqd_t)-1;
        enum kv_status status =
            open_lane(connection, guest ? WIRE_GUEST_LANE : WIRE_LANE, welcome->lane, &lane, error);
        /* A guest lane is open to us for a moment only; a new session gets another one. */
        if (guest && status == KV_DENIED && connection->lanes_missed++ < LANES_MISSED_MAX)
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

enum kv_status handshake_judge_first_request(const struct connection *connection,
                                             enum kv_status status, struct kv_error *error)
{
    if (status == KV_TIMEOUT)
        return explain_silence(connection, "has not answered the first request", error);
    if (status == KV_OK)
        return KV_OK;
    const char *queue = connection->settings->queue;
    if (status == KV_NO_SESSION && connection_stays_filled(connection))
        return kv_error_set(error, status, "another process fills the reply queue");
    if (status == KV_NO_SESSION)
        return kv_error_set(error, status, "the server of %s ended the session at once", queue);
    return kv_error_set(error, status, "the server of %s ended during the handshake", queue);
}
