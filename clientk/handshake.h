/*
 * handshake: how a session begins. The client makes its reply queue, locks it (by which the kernel
 * proves its pid to the server), and says HELLO on lane 0; the server answers WELCOME, or REFUSED and
 * why; then the name of the reply queue is unlinked, so that nothing can stay behind.
 */
#ifndef MQKV_CLIENTK_HANDSHAKE_H
#define MQKV_CLIENTK_HANDSHAKE_H

#include <stdint.h>

#include "mqkv/error.h"

struct connection;

/* Fills in a connection that is closed. What it has opened when it fails is in the connection, for
 * connection_close; but no name is left. */
enum kv_status handshake(struct connection *connection, uint64_t deadline_ms,
                         struct kv_error *error);

#endif
