/*
 * hello: how a client becomes a session, and how it offers its segment. What the client says about
 * itself is believed only as far as the kernel confirms it (wire/identity.h): the queue it wants its
 * replies in was made by the uid, and is locked by the pid, that it claims.
 */
#ifndef MQKV_SERVERK_SESSION_HELLO_H
#define MQKV_SERVERK_SESSION_HELLO_H

#include "common/cursor.h"
#include "serverk/dispatch/worker.h"
#include "wire/message.h"

/* A HELLO, whose header decoded with that status (not KV_OK: of another protocol version). Answers
 * WELCOME, or REFUSED with the reason, or nothing to who proves no identity. A HELLO that comes twice
 * (the client lost patience) gets the same WELCOME twice. */
void hello_answer(struct worker *worker, const struct wire_header *header,
                  enum kv_status header_status, struct read_cursor *body);

/* A SEGMENT of a session: opens it and answers with a REPLY. */
void handshake_segment(struct worker *worker, struct session *session,
                       const struct wire_header *header, struct read_cursor *body);

#endif
