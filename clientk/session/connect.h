/*
 * connect: how a session begins. The client creates its reply queue or ring, locks it (by which the
 * kernel proves its pid to the server), and says HELLO on lane 0; the server answers WELCOME, or
 * REFUSED and why; then the name of queue or ring is unlinked, so that nothing stays behind.
 */
#ifndef MQKV_CLIENTK_SESSION_CONNECT_H
#define MQKV_CLIENTK_SESSION_CONNECT_H

#include <stdint.h>

#include "clientk/session/connection.h"
#include "clientk/session/exchange.h"
#include "mqkv/error.h"

/* Ensures that the connection can be used, as far as can be known without sending: closes one that
 * is suspect or whose server has ended, and connects, repeatedly until the deadline while there is
 * no server (once, if the settings say fail_fast). Nothing may be in flight. KV_NO_SERVER: no
 * process serves the queue; KV_TIMEOUT: the server did not answer; KV_DENIED, KV_LIMIT,
 * KV_UNSUPPORTED, KV_OVERLOADED, ...: with the sentence why. After a failure it is closed, and no
 * name is left. */
enum kv_status connection_open(struct connection *connection, uint64_t deadline_ms,
                               struct kv_error *error);

enum session_phase { SESSION_TO_BEGIN, SESSION_TO_GREET, SESSION_GREETED, SESSION_TO_PROVE };

/* One attempt of who does not wait; start from {0}. It borrows nothing of the connection. */
struct session_attempt {
    enum session_phase phase;
    bool waits;           /* for the server: to be continued */
    uint64_t deadline_ms; /* of the attempt */
    char reply_queue[WIRE_QUEUE_NAME_BYTES];
    struct exchange exchange; /* of the first request, and its message */
    uint8_t message[EXCHANGE_CONTROL_BYTES];
};

/* Begins to open a connection that is closed, or goes on with it, as far as that goes without
 * waiting. KV_OK with attempt->waits: call again when the connection has something to receive
 * or room to send, or 100 ms later (nothing else tells that the queue is the server's no more).
 * KV_OK without: it is open. Else it is closed, and the failure one of connection_open;
 * connection->backoff_ms is the pause before the next attempt. */
enum kv_status session_continue(struct connection *connection, struct session_attempt *attempt,
                                struct kv_error *error);

/* Whether a failure to open may be over soon: then the attempt is worth repeating. */
bool session_may_come(const struct connection *connection, enum kv_status status);

/* Ends an attempt that is under way, and closes the connection. */
void session_drop(struct connection *connection, struct session_attempt *attempt);

#endif
