/*
 * reply_path: what the replies of a session come through: a ring in shared memory
 * (wire/reply_ring.h) where client and server can share one, else a reply queue. Made anew for each
 * session.
 */
#ifndef MQKV_CLIENTK_SESSION_REPLY_PATH_H
#define MQKV_CLIENTK_SESSION_REPLY_PATH_H

#include <stdint.h>

#include "mqkv/error.h"
#include "wire/queue_name.h"

struct connection;

/* Creates the ring or the reply queue for the server that was found, locked and open to it, and
 * writes its name to `name`. Where queues are short of bytes, waits for a moment, but not beyond
 * the deadline. KV_UNSUPPORTED: a ring is asked for, and there can be none. After a failure no name
 * is left. */
enum kv_status reply_path_make(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES],
                               uint64_t deadline_ms, struct kv_error *error);

/* Removes the name; what it named stays open. */
void reply_path_unlink(const struct connection *connection, const char *name);

#endif
