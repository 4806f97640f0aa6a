/*
 * hello: how a client gets a session. The server believes what the client says about itself only as
 * far as the kernel confirms it (wire/identity.h): the reply queue must have been made by the uid,
 * and be locked by the pid, that the client claims.
 *
 * Threads: any. Locks: one of its own around the admission, so that one HELLO is decided at a time.
 */
#ifndef MQKV_SERVERK_SESSION_HELLO_H
#define MQKV_SERVERK_SESSION_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cursor.h"
#include "serverk/session/session.h"
#include "wire/message.h"

/* What sessions of this daemon are offered; constant. */
struct hello_terms {
    struct session_table *sessions;
    const char *queue; /* the daemon's queue name */
    uint64_t instance; /* random: this start of the daemon */
    uint32_t max_value_bytes;
    uint16_t welcome_flags; /* WIRE_WELCOME_* */
};

/* A HELLO `message`, whose header was decoded with header_status (not KV_OK: of another protocol
 * version). Answers WELCOME, or REFUSED with the reason, or nothing to who proves no identity. A
 * HELLO that comes twice (the client lost patience) gets the same WELCOME twice. False: it is not
 * proven which process sent it. */
bool hello_answer(const struct hello_terms *terms, struct kv_slice message,
                  const struct wire_header *header, enum kv_status header_status,
                  struct read_cursor *body);

#endif
