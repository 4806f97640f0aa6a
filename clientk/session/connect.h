/*
 * connect: how a session begins. The client creates its reply queue or ring, locks it (so that the
 * kernel proves the client's pid to the server), and says HELLO on lane 0. The server answers
 * WELCOME, or REFUSED and why. Then the client unlinks the name of its queue or ring, so that
 * nothing stays behind, and opens the lanes of its session.
 *
 * Threads: as the connection.
 */
#ifndef MQKV_CLIENTK_SESSION_CONNECT_H
#define MQKV_CLIENTK_SESSION_CONNECT_H

#include <stdint.h>

#include "clientk/session/connection.h"
#include "clientk/session/round_trip.h"
#include "mqkv/error.h"

/* Ensures that the connection can be used, as far as can be known without sending: closes one that
 * is suspect or whose server has ended, and connects, repeatedly until deadline_ms while there is
 * no server (once, if the settings say fail_fast). Nothing may be in flight. KV_NO_SERVER: no
 * process serves the queue; KV_TIMEOUT: the server did not answer; KV_DENIED, KV_LIMIT,
 * KV_UNSUPPORTED, KV_OVERLOADED, ...: *error says why. After a failure the connection is closed,
 * and no name is left. */
enum kv_status connection_open(struct connection *connection, uint64_t deadline_ms,
                               struct kv_error *error);

enum session_phase { SESSION_TO_BEGIN, SESSION_TO_GREET, SESSION_GREETED, SESSION_TO_PROVE };

/* One attempt to connect of a caller that does not wait. Start from {0}. */
struct session_attempt {
    enum session_phase phase;
    bool waits;           /* for the server: the attempt is to be continued */
    uint64_t deadline_ms; /* of the attempt */
    char reply_queue[WIRE_QUEUE_NAME_BYTES];
    struct round_trip round_trip; /* of the first request, and its message */
    uint8_t message[ROUND_TRIP_CONTROL_BYTES];
};

/* Begins to open a connection that is closed, or continues, as far as that goes without waiting.
 * KV_OK with attempt->waits: call again when the connection has something to receive or room to
 * send, or 100 ms later (nothing else tells that the queue belongs to another server now). KV_OK
 * without: the connection is open. Otherwise it is closed, the status is one of connection_open,
 * and connection->backoff_ms is the pause before the next attempt. */
enum kv_status session_attempt_continue(struct connection *connection,
                                        struct session_attempt *attempt, struct kv_error *error);

/* Ends an attempt that is under way, and closes the connection. */
void session_attempt_drop(struct connection *connection, struct session_attempt *attempt);

/* Returns true if an attempt that failed with `status` is worth repeating: the reason may pass. */
bool session_failure_may_pass(const struct connection *connection, enum kv_status status);

#endif
