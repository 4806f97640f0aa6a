/*
 * reply_path: what the replies of a session come through: a ring in shared memory
 * (wire/reply_ring.h) where client and server can share one, else a reply queue. Each session gets
 * a new one.
 *
 * A reply queue has the narrowest mode with which the server can send to it: the fewer other
 * processes can open the queue while it has its name, the fewer can fill it later.
 *   0600   the server has our uid, or is root with the right to open everything
 *   0620   the server is in the group of its request queue, and so are we
 *   0622   otherwise
 */
#ifndef MQKV_CLIENTK_SESSION_REPLY_PATH_H
#define MQKV_CLIENTK_SESSION_REPLY_PATH_H

#include <stdint.h>

#include "clientk/session/connection.h"
#include "mqkv/error.h"
#include "wire/queue_name.h"

/* Creates the ring or the reply queue for the server that was found, locked and open to that
 * server, and writes its name to `name`. If queues are short of bytes, waits for a moment, but not
 * beyond deadline_ms. KV_UNSUPPORTED: the settings demand a ring, and there can be none; KV_LIMIT,
 * KV_NO_MEMORY, KV_IO, ... After a failure no name is left. */
enum kv_status reply_path_make(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES],
                               uint64_t deadline_ms, struct kv_error *error);

/* Removes `name`; the queue or ring that had it stays open. */
void reply_path_unlink(const struct connection *connection, const char *name);

/* Returns a clause that explains `hindrance`; NULL: there is none. */
const char *ring_hindrance_explain(enum ring_hindrance hindrance);

#endif
