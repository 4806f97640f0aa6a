/*
 * hello: how a client gets a session. The server trusts a client's claims only if the kernel
 * confirms them (wire/identity.h): the claimed uid must have created the reply queue, and the
 * claimed pid must hold its lock. In the place of a reply queue a client of the daemon's own user
 * may have a ring (wire/reply_ring.h), to which the same applies.
 *
 * Threads: any. Locks: one of its own around the admission, so that one HELLO is decided at a time.
 */
#ifndef MQKV_SERVERK_SESSION_HELLO_H
#define MQKV_SERVERK_SESSION_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/kvstore.h"
#include "serverk/config/live_settings.h"
#include "serverk/session/access.h"
#include "serverk/session/session_table.h"
#include "wire/message.h"

/* What sessions of this daemon are offered; constant. */
struct hello_terms {
    struct session_table *sessions;
    const char *queue;                /* the daemon's queue name */
    uint64_t instance;                /* random: this start of the daemon */
    const struct live_settings *live; /* the largest value */
    enum wire_replies replies;        /* how those of the daemon's own user may get theirs */
    uint16_t welcome_flags;           /* WIRE_WELCOME_* */
    struct access *access;            /* what users may do */
    enum kvstore_direct
        direct; /* whom reads without messages are offered to, and where the store is: */
    uint64_t store_device;
    uint64_t store_inode;
    uint64_t store_number;
};

/* Handles a HELLO `message`, whose header was decoded with header_status (not KV_OK: another
 * protocol version), and which came through the read lane if reads_only. Answers WELCOME, or
 * REFUSED with the reason; a sender without a proven identity gets no answer. A HELLO that comes
 * twice (after a timeout of the client) gets the same WELCOME twice. False: the process that sent
 * it is not proven. */
bool hello_answer(const struct hello_terms *terms, struct kv_slice message,
                  const struct wire_header *header, enum kv_status header_status,
                  struct read_cursor *body, bool reads_only);

#endif
