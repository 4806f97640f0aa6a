/*
 * deliver: a finished reply on its way to the client: as one message where it fits, else stored and
 * sent in fragments, each when the client asks for it. Nothing here waits.
 *
 * Threads: any that holds the session.
 */
#ifndef MQKV_SERVERK_SESSION_DELIVER_H
#define MQKV_SERVERK_SESSION_DELIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/assert/assert.h"
#include "mqkv/slice.h"
#include "serverk/session/session_table.h"
#include "wire/message.h"

/* Returns the header of a REPLY. It tells the client if its lane is of no more use, since others
 * send to it, or it lost its name: a new session gets another one. */
static inline struct wire_header deliver_header(const struct session *session, uint64_t request_id,
                                                enum kv_status status)
{
    const _Atomic bool *spoiled = session->assignment.spoiled;
    bool moved = spoiled && atomic_load_explicit(spoiled, memory_order_relaxed);
    return (struct wire_header){.kind = WIRE_REPLY,
                                .status = status,
                                .session = session->id,
                                .flags = moved ? WIRE_REPLY_MOVED : 0,
                                .request_id = request_id,
                                .secret = session->nonce};
}

/* Sends a reply whose builder holds a reservation of fragments, which is used or given back here.
 * Returns the bytes sent now; 0: the session was at fault and has ended. */
size_t deliver_extended(struct session_table *table, struct fragment_budget *budget,
                        struct session *session, struct kv_slice reply);

/* Sends the REPLY; extended: as deliver_extended. Any other reply fits a message. */
static inline size_t deliver_reply(struct session_table *table, struct fragment_budget *budget,
                                   struct session *session, struct kv_slice reply, bool extended)
{
    KV_ASSERT(extended || reply.size <= session->reply_bytes);
    if (extended)
        return deliver_extended(table, budget, session, reply);
    return session_send(table, session, reply.data, reply.size) ? reply.size : 0;
}

/* Sends the fragment from `offset` on of the reply to request_id; or a failure, if there is none.
 */
size_t deliver_fragment(struct session_table *table, struct fragment_budget *budget,
                        struct session *session, uint64_t request_id, uint32_t offset);

/* Sends a REPLY without results: a status and the sentence, which is cut to what fits a message. */
size_t deliver_failure(struct session_table *table, struct session *session, uint64_t request_id,
                       enum kv_status status, const char *sentence);

#endif
