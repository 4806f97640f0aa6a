/*
 * redis_connection: a session and its socket: moves bytes between them, and never waits. What a
 * client does not read stays in its own buffer, and until it is read no more of the client's
 * commands are executed: nobody else is disturbed. They are received all the same, up to a limit:
 * many clients send a whole pipeline before they read the first reply. Threads: a connection
 * belongs to one thread.
 */
#ifndef MQKV_KRESP_BRIDGE_REDIS_CONNECTION_H
#define MQKV_KRESP_BRIDGE_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "bridges/kresp/session/redis_session.h"

struct redis_connection {
    struct redis_session session;
    int fd;
    bool readable;         /* the socket may have more to read */
    bool writable;         /* it may take more */
    bool watched_for_room; /* the thread is told when it does */
    bool hung_up;          /* what is still to be read has an end, of which nobody tells again */
    bool ended;            /* nothing more comes: what was received is still answered */
    bool broken;           /* to be closed at once */
    bool active;           /* it waits for a turn, or has one */
    bool has_more;         /* the session has commands, or parts of one, that need no new input */
    struct redis_connection *previous, *next; /* of the thread's connections */
    struct turn_share *share;
    struct redis_connection *next_waiting; /* active: of the share's connections */
};

/* Takes over the socket, whose peer it tells the log, and which is of this user; NULL: out of
 * memory (the socket is the caller's). */
struct redis_connection *redis_connection_open(struct redis_service *service, int fd,
                                               struct redis_user *user);

/* Closes the socket, and leaves the user. */
void redis_connection_close(struct redis_connection *connection);

/* True if more commands may be executed now: not too much of its replies is unread. */
bool redis_connection_may_take(const struct redis_connection *connection);

/* True if reading more makes sense now: commands that were received come first, and of those that
 * may not be executed yet there is a limit. */
bool redis_connection_may_read(const struct redis_connection *connection);

/* Reads what has come, if it may. */
void redis_connection_read(struct redis_connection *connection);

/* Forgets the commands that were answered, and gives back the memory of large ones. */
void redis_connection_release(struct redis_connection *connection);

/* Writes what the socket takes. */
void redis_connection_write(struct redis_connection *connection);

static inline size_t redis_connection_unwritten(const struct redis_connection *connection)
{
    return byte_buffer_size(&connection->session.reply.bytes);
}

/* True if it has come to its end: all is answered and written, or it is broken. */
bool redis_connection_is_done(const struct redis_connection *connection);

#endif
