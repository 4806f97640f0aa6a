/*
 * connection: one session with the server: the reply queue or ring, the lanes, and the proof that
 * the server is alive. It moves messages; exchange.h knows what they mean, connect.h opens it.
 *
 * Threads: one at a time. It never waits beyond the deadline it is given, in milliseconds of
 * CLOCK_MONOTONIC; an interrupted wait (client_settings.h) ends as if the deadline had come.
 */
#ifndef MQKV_CLIENTK_SESSION_CONNECTION_H
#define MQKV_CLIENTK_SESSION_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "clientk/base/large_values.h"
#include "clientk/base/client_settings.h"
#include "clientk/session/ring_hindrance.h"
#include "common/memory/cursor.h"
#include "wire/message.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"
#include "wire/wait.h"

struct connection {
    const struct client_settings *settings;
    _Atomic unsigned priority; /* of its messages; any thread may set it */
    bool open;
    bool suspect; /* an answer did not come, and the session's state is not known: to be closed */
    bool moved;   /* the server says that a new session would get a better lane */
    mqd_t reply_queue;             /* or, with a ring, the descriptor of its object */
    struct wire_ring *ring;        /* NULL: replies come through the reply queue */
    enum ring_hindrance hindrance; /* why it has no ring */
    mqd_t lane, bulk_lane;         /* bulk_lane may be the same as lane */
    int pidfd;                     /* of the server; -1: not available */
    const struct wire_geometry *reply_ladder;
    struct wire_geometry reply_geometry; /* granted */
    uid_t server_uid;                    /* as the kernel says of lane 0 */
    struct wire_welcome welcome;
    uint32_t session;
    uint64_t nonce;
    uint64_t next_request_id;
    uint32_t unanswered; /* messages whose answer has not come; at most welcome.credits */
    uint64_t heard_ms;   /* when the last message came */
    uint32_t garbage;    /* messages since then that were not the server's */
    uint64_t filled_ms;  /* when they filled the queue, so that no answer may fit; 0: never */
    struct wire_waiter waiter;
    uint8_t *received; /* reply_geometry.message_bytes */
    size_t received_bytes;
    struct large_values values; /* the session's segment */
    uint32_t backoff_ms;        /* before the next attempt to connect; 0: the last one succeeded */
    uint32_t handshakes;        /* that succeeded */
    uint32_t lanes_missed;      /* in a row: lanes that were closed before they were opened */
    int epoll;       /* the set that watches its descriptors (connection_watch); -1: none */
    bool watched;    /* the reply queue and pidfd are in it */
    mqd_t full_lane; /* that refused the last message; -1: none did */
};

/* A connection that is closed. ladder: of its reply queue (wire/queue.h). */
void connection_init(struct connection *connection, const struct client_settings *settings,
                     const struct wire_geometry *ladder);

/* False: it is closed or suspect, or has no server or session any more. A guess, without a system
 * call if the server was heard within this clock tick. */
bool connection_usable(const struct connection *connection);

/* Whether the server has ended or its lane was unlinked. A guess, without a system call if the
 * server was heard within this clock tick. */
bool connection_server_gone(const struct connection *connection);

/* Tells the server that the session ends, if there is room in the lane. */
void connection_say_bye(struct connection *connection);

/* Closes everything, after BYE to the server if say_goodbye. Harmless if it is closed. */
void connection_close(struct connection *connection, bool say_goodbye);

/* Puts what the connection waits for into connection->epoll: messages of the server, its end,
 * and, once, room in the lane that was full. What is closed leaves the set by itself. False: no
 * memory, or a limit. */
bool connection_watch(struct connection *connection);

/* Whether others filled the reply queue a while ago, and no answer came since: KV_NO_SESSION of
 * connection_receive, for who does not wait there. */
bool connection_stays_filled(const struct connection *connection);

/* Closes the queue, if it is open. A queue is a descriptor (Linux) and is closed as one: the thread
 * sanitizer does not see mq_close, and would take the next user of the number for this one. */
void connection_close_queue(mqd_t *queue);

/* The largest message that may be sent whole. */
static inline size_t connection_message_bytes(const struct connection *connection)
{
    const struct wire_welcome *welcome = &connection->welcome;
    return welcome->bulk_bytes > welcome->lane_bytes ? welcome->bulk_bytes : welcome->lane_bytes;
}

/* Sends to the lane for messages of that size. KV_OK; KV_TIMEOUT: the lane was full until the
 * deadline, not sent; KV_NO_SERVER: the server has ended, not sent; KV_IO. */
enum kv_status connection_send(struct connection *connection, const void *message, size_t size,
                               uint64_t deadline_ms);

/* Receives the next message of the server: its header, and its body (borrowed until the next call).
 * A message that is not the server's is dropped and makes the connection suspect. KV_OK;
 * KV_TIMEOUT; KV_NO_SERVER: the server has ended and nothing is left to receive; KV_NO_SESSION: the
 * server has ended the session and nothing is left, or another process filled the queue, and no
 * answer has come since; KV_IO. */
enum kv_status connection_receive(struct connection *connection, uint64_t deadline_ms,
                                  struct wire_header *header, struct read_cursor *body);

#endif
