/*
 * scan_places: where SCANs go on that follow the order of keys. A cursor of Redis is a number, and
 * a place in an order is a key: so the keys of the last SCANS_KEPT of them are kept here, for all
 * connections, since a client may go on over another one. If there are too many, or their keys take
 * too much, the oldest goes of the user who has the most, so that nobody takes those of others.
 * Their cursors are no cursors of CLIENTK_SCAN, and exact as a double, as some clients read them:
 *
 *   63 .. 52 zero | 51 .. 44 ones | 43 .. 17 scan | 16 .. 2 step | 1 one | 0 zero
 *
 * In those of the engine of data files (docs/PROTOCOL.md 7.9) bit 1 is never one where bit 0 is
 * zero; those of NATS have a message's number there, which never comes near 2^52.
 *
 * Threads: any.
 */
#ifndef MQKV_KRESP_SESSION_SCAN_PLACES_H
#define MQKV_KRESP_SESSION_SCAN_PLACES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"

#define SCANS_KEPT       1024u
#define SCAN_PLACE_BYTES ((size_t)4 * 1024 * 1024) /* of all keys that are kept */

struct scan_place {
    uint32_t scan;       /* its number; 0: there is none */
    uint32_t uid;        /* of the user who began it */
    uint32_t step;       /* of the last cursor */
    uint64_t used;       /* when it was last asked for, or moved on */
    void *keys[2];       /* owned: of the last cursor [step % 2], and of the one before */
    size_t key_bytes[2]; /* 0 where there is none */
};

/* Start from SCAN_PLACES_EMPTY. */
struct scan_places {
    pthread_mutex_t lock;
    uint64_t uses;
    uint32_t last_scan; /* 0: none yet */
    size_t bytes;
    struct scan_place places[SCANS_KEPT];
};

#define SCAN_PLACES_EMPTY                 \
    {                                     \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* Returns true if the cursor is one of an order, whether its place is kept or not. */
bool scan_places_owns(uint64_t cursor);

/* Puts the key behind which the cursor goes on into *key. The last cursor of a scan is known, and
 * the one before, for who has lost a reply. False: it is not kept (any longer, or it is from
 * another kresp), or there is no memory: key->failed then. */
bool scan_places_find(struct scan_places *places, uint64_t cursor, struct byte_buffer *key);

/* Keeps the key, and returns the cursor that goes on behind it; 0: there is no memory. `before`:
 * the cursor with which this page began; 0: none. uid: the user's who asks. */
uint64_t scan_places_keep(struct scan_places *places, uint32_t uid, uint64_t before,
                          struct kv_slice key);

/* Forgets all of them. */
void scan_places_free(struct scan_places *places);

#endif
