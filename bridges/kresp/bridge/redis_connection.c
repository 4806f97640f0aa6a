#include "bridges/kresp/bridge/redis_connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/report/log.h"

/* The least that one read asks for, and the memory that an empty buffer keeps. */
#define READ_BYTES ((size_t)16 * 1024)

/* The most that one read asks for: a client that announces a large argument gets memory only as it
 * sends it. */
#define MAX_READ_BYTES ((size_t)1024 * 1024)

/* A client that has not read this much of its replies gets no further ones. */
#define MAX_UNREAD_BYTES ((size_t)256 * 1024)

/* A client whose replies are unread may send this much more; the rest stays with the client.
 * Clients that have not said who they are get less. */
#define MAX_AHEAD_BYTES           ((size_t)16 * 1024 * 1024)
#define MAX_STRANGERS_AHEAD_BYTES ((size_t)64 * 1024)

#define KEEP_BYTES ((size_t)64 * 1024)

/* How the log names the peer ------------------------------------------------------------------- */

#define MAX_LOGGED_UIDS 64u

/* Returns true for the first connection of each user: only the verbose log tells of further
 * ones. */
static bool is_new_user(uid_t uid)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uid_t users[MAX_LOGGED_UIDS];
    static size_t count;
    bool is_new = true;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        is_new &= users[i] != uid;
    if (is_new && count < MAX_LOGGED_UIDS)
        users[count++] = uid;
    pthread_mutex_unlock(&lock);
    return is_new;
}

static void meet_unix_peer(struct redis_session *session, int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    snprintf(session->address, sizeof session->address, "%.100s:0", session->service->socket_path);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        log_warn("client %" PRIu64 ": the kernel does not tell who it is", session->id);
        return;
    }
    if (is_new_user(peer.uid))
        log_info("client %" PRIu64 ": pid %ld, uid %ld, gid %ld (further ones of this user: -v)",
                 session->id, (long)peer.pid, (long)peer.uid, (long)peer.gid);
    else
        log_debug("client %" PRIu64 ": pid %ld, uid %ld, gid %ld", session->id, (long)peer.pid,
                  (long)peer.uid, (long)peer.gid);
}

static void meet_tcp_peer(struct redis_session *session, int fd)
{
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof peer;
    const int on = 1;
    char text[INET_ADDRSTRLEN] = "?";
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET) {
        inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text);
        snprintf(session->address, sizeof session->address, "%s:%u", text, ntohs(peer.sin_port));
    }
    log_debug("client %" PRIu64 ": from %s", session->id, session->address);
}

struct redis_connection *redis_connection_open(struct redis_service *service, int fd,
                                               struct redis_user *user)
{
    struct redis_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    redis_session_init(&connection->session, service, user);
    connection->fd = fd;
    connection->writable = true;
    int domain = AF_UNIX;
    socklen_t size = sizeof domain;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    if (domain == AF_UNIX)
        meet_unix_peer(&connection->session, fd);
    else
        meet_tcp_peer(&connection->session, fd);
    return connection;
}

void redis_connection_close(struct redis_connection *connection)
{
    struct redis_session *session = &connection->session;
    close(connection->fd);
    redis_session_free(session);
    redis_user_leave(&session->service->users, session->user);
    free(connection);
}

/* Bytes ---------------------------------------------------------------------------------------- */

bool redis_connection_may_take(const struct redis_connection *connection)
{
    return redis_connection_unwritten(connection) < MAX_UNREAD_BYTES;
}

bool redis_connection_may_read(const struct redis_connection *connection)
{
    const struct redis_session *session = &connection->session;
    if (!connection->readable || connection->ended || session->closing)
        return false;
    if (redis_connection_may_take(connection))
        return !connection->has_more && !session->unfinished;
    if (byte_buffer_is_short(
            &session->input)) /* no connection is closed because reading ahead lacked memory */
        return false;
    return byte_buffer_size(&session->input) <
           (session->authenticated ? MAX_AHEAD_BYTES : MAX_STRANGERS_AHEAD_BYTES);
}

/* Makes room for the next read; 0: there is no memory. */
static size_t make_read_room(struct redis_session *session)
{
    struct byte_buffer *input = &session->input;
    size_t missing = resp_request_missing(&session->request, input);
    size_t wanted = missing < READ_BYTES       ? READ_BYTES
                    : missing > MAX_READ_BYTES ? MAX_READ_BYTES
                                               : missing;
    if (input->capacity - input->end < wanted)
        byte_buffer_compact(input, byte_buffer_size(input) > 0 ? 0 : KEEP_BYTES);
    if (!byte_buffer_room(input, wanted))
        return 0;
    size_t room = input->capacity - input->end;
    return missing >= READ_BYTES ? wanted : room < MAX_READ_BYTES ? room : MAX_READ_BYTES;
}

/* Makes room as make_read_room does, while the arguments of an unfinished command may lie in the
 * input. */
static size_t make_room_behind_unfinished(struct redis_session *session)
{
    const struct byte_buffer *input = &session->input;
    uintptr_t old = (uintptr_t)input->data + input->start;
    size_t size = byte_buffer_size(input), room = make_read_room(session);
    redis_job_follow(session->unfinished, old, size, input->data + input->start);
    return room;
}

static void end_for_memory(struct redis_connection *connection)
{
    struct redis_session *session = &connection->session;
    log_warn("client %" PRIu64 ": closed: its request is larger than the memory for buffers that "
             "is left to its user (--buffers)",
             session->id);
    session->closing = true;
    if (session->unfinished) /* in the middle of a reply there is no place for an error */
        connection->broken = true;
    else
        reply_error(&session->reply, "ERR kresp: no memory for the request is left");
}

void redis_connection_read(struct redis_connection *connection)
{
    struct redis_session *session = &connection->session;
    if (!redis_connection_may_read(connection))
        return;
    size_t room =
        session->unfinished ? make_room_behind_unfinished(session) : make_read_room(session);
    if (room == 0) {
        end_for_memory(connection);
        return;
    }
    ssize_t bytes = read(connection->fd, session->input.data + session->input.end, room);
    if (bytes > 0) {
        session->input.end += (size_t)bytes;
        connection->readable = (size_t)bytes == room || connection->hung_up;
        connection->has_more = true;
    } else if (bytes == 0) {
        connection->ended = true;
        connection->readable = false;
    } else if (errno == EAGAIN) {
        connection->readable = false;
    } else if (errno != EINTR) {
        connection->broken = true;
    }
}

void redis_connection_release(struct redis_connection *connection)
{
    struct redis_session *session = &connection->session;
    if (session->unfinished)
        return;
    redis_session_release(session);
    if (byte_buffer_size(&session->input) > 0)
        return;
    if (session->input.capacity > KEEP_BYTES)
        byte_buffer_compact(&session->input, READ_BYTES);
    if (session->request.spans.capacity > KEEP_BYTES)
        resp_request_shrink(&session->request);
}

static void end_overrun(struct redis_connection *connection)
{
    const struct redis_session *session = &connection->session;
    log_warn("client %" PRIu64 ": closed: what it has not read of the channels that it is "
             "subscribed to is more than %zu MiB, or than the memory for buffers that is left to "
             "its user (--buffers)",
             session->id, REDIS_INBOX_BYTES >> 20);
    connection->broken = true;
}

void redis_connection_deliver(struct redis_connection *connection)
{
    struct redis_session *session = &connection->session;
    if (!connection->has_mail)
        return;
    if (redis_subscriber_is_overrun(&session->subscriber)) {
        end_overrun(connection);
    } else if (session->closing) {
        connection->has_mail = false;
    } else if (!session->unfinished && redis_connection_may_take(connection)) {
        connection->has_mail = false;
        redis_subscriber_take(&session->subscriber, &session->reply);
        key_tracker_take(&session->tracker, &session->reply);
    }
}

void redis_connection_write(struct redis_connection *connection)
{
    struct redis_session *session = &connection->session;
    struct byte_buffer *bytes = &session->reply.bytes;
    if (bytes->failed) {
        log_warn("client %" PRIu64 ": closed: its replies are larger than the memory for buffers "
                 "that is left to its user (--buffers)",
                 session->id);
        connection->broken = true;
    }
    while (!connection->broken && connection->writable && byte_buffer_size(bytes) > 0) {
        ssize_t written = send(connection->fd, bytes->data + bytes->start, byte_buffer_size(bytes),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
        if (written > 0)
            byte_buffer_consume(bytes, (size_t)written);
        else if (errno == EAGAIN)
            connection->writable = false;
        else if (errno != EINTR)
            connection->broken = true;
    }
    if (byte_buffer_size(bytes) == 0 && bytes->capacity > KEEP_BYTES)
        byte_buffer_compact(bytes, READ_BYTES);
    else if (bytes->start > KEEP_BYTES && bytes->start >= byte_buffer_size(bytes))
        byte_buffer_compact(bytes, 0); /* a client may never read to the end */
    redis_subscriber_note_unread(&session->subscriber, byte_buffer_size(bytes));
}

bool redis_connection_is_done(const struct redis_connection *connection)
{
    const struct redis_session *session = &connection->session;
    if (connection->broken)
        return true;
    bool last = session->closing || (connection->ended && !connection->has_more);
    return last && !session->unfinished && redis_connection_unwritten(connection) == 0;
}
