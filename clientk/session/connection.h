/*
 * connection: one session with the server: the reply queue or ring, the lanes, and the proof that
 * the server lives. This module moves messages; round_trip.h knows how request and answer belong
 * together, and connect.h opens a session.
 *
 * Threads: one at a time. No function waits beyond the deadline that it is given, in milliseconds
 * of CLOCK_MONOTONIC; a wait that the program interrupts (client_settings.h) ends as if the
 * deadline had come.
 */
#ifndef MQKV_CLIENTK_SESSION_CONNECTION_H
#define MQKV_CLIENTK_SESSION_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "clientk/base/client_settings.h"
#include "clientk/base/large_values.h"
#include "common/memory/cursor.h"
#include "wire/message.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"
#include "wire/wait.h"

/* Why the replies of a session come through a queue, not through a ring (reply_path.h). */
enum ring_hindrance {
    RING_POSSIBLE,
    RING_NOT_WANTED,   /* the option replies is "queue" */
    RING_OTHER_USER,   /* the server has another uid */
    RING_NOT_OFFERED,  /* the server takes no rings */
    RING_OTHER_MEMORY, /* the server sees another /dev/shm */
    RING_NO_MEMORY,    /* the ring could not be created */
    RING_EVENT_LOOP    /* an event loop needs a descriptor that becomes readable */
};

struct connection {
    const struct client_settings *settings;
    _Atomic unsigned priority; /* of its messages; any thread may set it */
    bool open;
    bool
        suspect; /* the state of the session is not known, as after an answer that did not come: the
                     session is to be closed */
    bool moved;  /* the server says that a new session would get a better lane */
    mqd_t reply_queue;             /* with a ring: the descriptor of its object */
    struct wire_ring *ring;        /* NULL: replies come through the reply queue */
    enum ring_hindrance hindrance; /* why there is no ring */
    mqd_t lane, bulk_lane;         /* bulk_lane may be the same as lane */
    int pidfd;                     /* of the server; -1: not available */
    const struct wire_geometry *reply_ladder;
    struct wire_geometry reply_geometry; /* what the kernel granted */
    uid_t server_uid;                    /* the owner of lane 0, as the kernel says */
    struct wire_welcome welcome;
    uint32_t session;
    uint64_t nonce;
    uint64_t next_request_id;
    uint32_t unanswered; /* messages whose answer has not come; at most welcome.credits */
    uint64_t heard_ms;   /* when the last message of the server came */
    uint32_t garbage;    /* messages since then that were not the server's */
    uint64_t
        filled_ms; /* when garbage filled the queue, so that no answer may fit; 0: it has not */
    struct wire_waiter waiter;
    uint8_t *received; /* room for reply_geometry.message_bytes */
    size_t received_bytes;
    struct large_values values; /* the value segment of the session */
    uint32_t backoff_ms;   /* the pause before the next attempt to connect; 0: the last succeeded */
    uint32_t handshakes;   /* how many have succeeded */
    uint32_t lanes_missed; /* how many lanes in a row were closed before they were opened */
    int epoll;             /* the event loop's set (connection_join_epoll); -1: none */
    bool in_epoll;         /* the reply queue and the pidfd are in that set */
    mqd_t full_lane;       /* the lane that refused the last message; -1: none did */
};

/* Makes a closed connection. `ladder`: the geometries of its reply queue (wire/queue.h). */
void connection_init(struct connection *connection, const struct client_settings *settings,
                     const struct wire_geometry *ladder);

/* Returns true if the connection is open and not suspect, and its server and session seem to live.
 * The answer costs no system call if the server was heard within this clock tick. */
bool connection_usable(const struct connection *connection);

/* Returns true if the server has ended, or if its lane was unlinked. The answer costs no system
 * call, and is false, if the server was heard within this clock tick. */
bool connection_server_gone(const struct connection *connection);

/* Tells the server that the session ends, if there is room in the lane. */
void connection_say_bye(struct connection *connection);

/* Closes the session and all descriptors, after connection_say_bye if `say_goodbye`. Harmless if
 * the connection is closed. */
void connection_close(struct connection *connection, bool say_goodbye);

/* Writes to `name` a name for a queue, segment or ring (`role`) of this process that it has not
 * used yet. */
void connection_new_name(const struct connection *connection, enum wire_queue_role role,
                         char name[WIRE_QUEUE_NAME_BYTES]);

/* Puts into the set connection->epoll what the connection waits for: messages of the server, the
 * end of the server and, once, room in the lane that was full. Descriptors that are closed leave
 * the set by themselves. False with errno: no memory, or a limit. */
bool connection_join_epoll(struct connection *connection);

/* Returns true if others filled the reply queue a while ago, and no answer has come since. A caller
 * that does not wait asks this in place of the KV_NO_SESSION of connection_receive. */
bool connection_stays_filled(const struct connection *connection);

/* Closes *queue if it is open. A queue is a descriptor (Linux) and is closed as one: the thread
 * sanitizer does not see mq_close, and would take the next user of the number for this one. */
void connection_close_queue(mqd_t *queue);

/* Returns the size of the largest message that can be sent whole. */
static inline size_t connection_message_bytes(const struct connection *connection)
{
    const struct wire_welcome *welcome = &connection->welcome;
    return welcome->bulk_bytes > welcome->lane_bytes ? welcome->bulk_bytes : welcome->lane_bytes;
}

/* Sends `message`, of at most connection_message_bytes, to the lane for messages of that size.
 * KV_OK; KV_TIMEOUT: the lane was full until the deadline, nothing was sent; KV_NO_SERVER: the
 * server has ended, nothing was sent; KV_IO. */
enum kv_status connection_send(struct connection *connection, const void *message, size_t size,
                               uint64_t deadline_ms);

/* Receives the next message of the server: *header, and *body, borrowed until the next call. A
 * message that is not the server's is dropped and makes the connection suspect. KV_OK; KV_TIMEOUT;
 * KV_NO_SERVER: the server has ended, and there is no further message; KV_NO_SESSION: the server
 * has ended the session, and there is no further message, or another process has filled the queue,
 * and no answer has come since; KV_IO. */
enum kv_status connection_receive(struct connection *connection, uint64_t deadline_ms,
                                  struct wire_header *header, struct read_cursor *body);

#endif
