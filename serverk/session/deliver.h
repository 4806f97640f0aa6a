/*
 * deliver: a finished reply on its way: as one message where it fits, else stored and sent in pieces,
 * each when the client asks for it. Nothing here waits.
 */
#ifndef MQKV_SERVERK_SESSION_DELIVER_H
#define MQKV_SERVERK_SESSION_DELIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "serverk/session/session.h"

/* Sends the REPLY. `extended`: its builder holds a transfer reservation, which is used or given back
 * here. Returns the bytes sent; 0: the session was at fault and has ended. */
size_t deliver_reply(struct session_table *table, struct fragment_budget *budget,
                     struct session *session, struct kv_slice reply, bool extended);

/* Sends the piece from `offset` on of the reply to request_id; or a failure, if there is none. */
size_t deliver_piece(struct session_table *table, struct fragment_budget *budget,
                     struct session *session, uint64_t request_id, uint32_t offset);

/* Sends a REPLY without results. */
size_t deliver_failure(struct session_table *table, struct session *session, uint64_t request_id,
                       enum kv_status status, const char *sentence);

#endif
