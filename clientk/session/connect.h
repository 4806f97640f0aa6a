/*
 * connect: how a session begins. The client creates its reply queue, locks it (by which the kernel
 * proves its pid to the server), and says HELLO on lane 0; the server answers WELCOME, or REFUSED
 * and why; then the name of the reply queue is unlinked, so that nothing stays behind.
 */
#ifndef MQKV_CLIENTK_SESSION_CONNECT_H
#define MQKV_CLIENTK_SESSION_CONNECT_H

#include <stdint.h>

#include "clientk/session/connection.h"
#include "mqkv/error.h"

/* Ensures that the connection can be used, as far as can be known without sending: closes one that
 * is suspect or whose server has ended, and connects, repeatedly until the deadline while there is
 * no server (once, if the settings say fail_fast). Nothing may be in flight. KV_NO_SERVER: no
 * process serves the queue; KV_TIMEOUT: the server did not answer; KV_DENIED, KV_LIMIT,
 * KV_UNSUPPORTED, KV_OVERLOADED, ...: with the sentence why. After a failure it is closed, and no
 * name is left. */
enum kv_status connection_open(struct connection *connection, uint64_t deadline_ms,
                               struct kv_error *error);

#endif
