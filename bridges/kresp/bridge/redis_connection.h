/*
 * redis_connection: a session and its socket: moves bytes between them, and never waits. What a
 * client does not read stays in its own buffer, and until the client reads it no more of its
 * commands are executed, so that nobody else is disturbed. They are received all the same, up to a
 * limit: many clients send a whole pipeline before they read the first reply. Threads: a connection
 * belongs to one thread.
 */
#ifndef MQKV_KRESP_BRIDGE_REDIS_CONNECTION_H
#define MQKV_KRESP_BRIDGE_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/session/redis_session.h"

struct redis_connection {
    struct redis_session session;
    int fd;
    bool readable;      /* the socket may have more to read */
    bool writable;      /* the socket may take more */
    bool room_interest; /* the thread is told when the socket takes more */
    bool hung_up;       /* the client sends no more, which epoll does not report again */
    bool ended;         /* nothing more comes; what was received is still answered */
    bool broken;        /* must be closed at once */
    bool active;        /* waits in its user's queue, or is in a batch */
    bool has_more;      /* the session has commands, or parts of one, that need no new input */
    bool has_mail;      /* what redis_connection_deliver delivers has come */
    struct redis_connection *previous, *next; /* neighbours in the thread's list of connections */
    struct user_queue *queue;
    struct redis_connection *next_waiting; /* if active: the next in the user's queue */
};

/* Makes a connection of the socket, which the user's client has opened, and logs its peer. NULL:
 * out of memory (the socket stays the caller's). */
struct redis_connection *redis_connection_open(struct redis_service *service, int fd,
                                               struct redis_user *user);

/* Closes the socket, and leaves the user. */
void redis_connection_close(struct redis_connection *connection);

/* Returns true if more commands may be executed now: few of its replies are unread. */
bool redis_connection_may_take(const struct redis_connection *connection);

/* Returns true if reading more makes sense now: commands that were received come first, and only so
 * many of them may wait for their execution. */
bool redis_connection_may_read(const struct redis_connection *connection);

/* Reads what has come, if the connection may read. */
void redis_connection_read(struct redis_connection *connection);

/* Forgets the commands that were answered, and gives back the memory of large ones. */
void redis_connection_release(struct redis_connection *connection);

/* Puts messages of channels, and what the client is told of changed keys, behind the replies, where
 * all is answered that was taken. */
void redis_connection_deliver(struct redis_connection *connection);

/* Returns the connection whose client's inbox that is. */
static inline struct redis_connection *redis_connection_of(struct redis_inbox *inbox)
{
    return (struct redis_connection *)((char *)inbox -
                                       offsetof(struct redis_connection, session.subscriber.inbox));
}

/* Writes as much of the replies as the socket takes. */
void redis_connection_write(struct redis_connection *connection);

static inline size_t redis_connection_unwritten(const struct redis_connection *connection)
{
    return byte_buffer_size(&connection->session.reply.bytes);
}

/* Returns true if the connection is over: all is answered and written, or it is broken. */
bool redis_connection_is_done(const struct redis_connection *connection);

#endif
