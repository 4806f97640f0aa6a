/*
 * message: the codec of messages: their header, and the body of those that manage a session.
 * operation.h encodes what REQUEST and REPLY carry. docs/PROTOCOL.md is the contract with clients
 * in other languages; only this module and operation.h build and parse what it describes. No
 * function here allocates, blocks, or reads a byte outside of its argument; every byte string
 * decodes to a message or to a named error.
 *
 * Header, WIRE_HEADER_BYTES, little-endian:
 *   offset size field
 *        0    4 magic "MQKV" (0x564b514d)
 *        4    1 protocol version (WIRE_VERSION)
 *        5    1 kind (enum wire_kind)
 *        6    2 status (enum kv_status; in REPLY, REFUSED; else 0)
 *        8    4 session
 *       12    2 count: operations or results that follow
 *       14    2 flags of the kind (below); unknown ones are KV_UNSUPPORTED
 *       16    8 request_id: chosen by the client, echoed in the reply
 *       24    8 secret: to the server the session's cookie, to the client the client's nonce
 *       32    8 deadline_ms of CLOCK_MONOTONIC, 0: none (in replies 0)
 *       40    4 window_offset, 4 window_bytes: where in the session's segment the server may put
 *               values of the reply (0 bytes: nowhere)
 */
#ifndef MQKV_WIRE_MESSAGE_H
#define MQKV_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "wire/operation.h"

#define WIRE_MAGIC          0x564b514du
#define WIRE_VERSION        1u
#define WIRE_HEADER_BYTES   48u
#define WIRE_MAX_OPERATIONS 4096u /* in one message */

enum wire_kind {
    WIRE_HELLO = 1,   /* client: open a session */
    WIRE_WELCOME = 2, /* server: the session is open */
    WIRE_REFUSED = 3, /* server: no session; the status and, as body, the sentence say why */
    WIRE_REQUEST = 4, /* client: operations */
    WIRE_REPLY = 5,   /* server: a result for each operation; or status != 0, count 0 and, as body,
                         a sentence */
    WIRE_BYE = 6,     /* client: close the session (no reply) */
    WIRE_SEGMENT = 7, /* client: use this shared-memory segment from now on; answered by a REPLY */
    WIRE_PART = 8,    /* client: a fragment of a request that is too big for a message; answered by
                         an empty REPLY, the last fragment by the reply to the whole request */
    WIRE_REPLY_PART = 9, /* server: a fragment of a reply that is too big for a message */
    WIRE_MORE = 10       /* client: send the next fragment of that reply */
};

/* Flags of a REQUEST and of a REPLY. */
enum {
    WIRE_REPLY_MOVED = 1 << 0, /* a new session of the client would get another lane */
    /* The reply may have fewer results than there are operations, at least one: the operations
     * behind the last result were not executed. */
    WIRE_REQUEST_MAY_STOP = 1 << 0
};

struct wire_header {
    enum wire_kind kind;
    enum kv_status status;
    uint32_t session;
    uint16_t count;
    uint16_t flags;
    uint64_t request_id;
    uint64_t secret;
    uint64_t deadline_ms;
    uint32_t window_offset;
    uint32_t window_bytes;
};

/* Writes *header at *cursor, which fails if there is no room. */
void wire_put_header(struct write_cursor *cursor, const struct wire_header *header);

/* Reads *header from *cursor. KV_OK; KV_BAD_REQUEST: too few bytes, another magic, or a count above
 * WIRE_MAX_OPERATIONS; KV_UNSUPPORTED: an unknown version, kind or flag (*header is filled in all
 * the same). */
enum kv_status wire_get_header(struct read_cursor *cursor, struct wire_header *header);

/* Returns the version in the header of a message that wire_get_header could read. */
uint8_t wire_message_version(const uint8_t *message);

/* Sets the count in the header at `message`, which was written before its operations. */
void wire_patch_count(uint8_t *message, uint16_t count);

/* Session messages -------------------------------------------------------------------------- */

#define WIRE_NAME_MAX_BYTES 255u /* NAME_MAX of a queue or segment */

/* Each wire_put_* below writes the body at *cursor. It returns false if the body does not fit (then
 * the cursor has failed) or has an impossible name. Each wire_get_* reads a body: KV_OK or
 * KV_BAD_REQUEST. What follows a body that was understood is left unread, so that later versions
 * can add fields. */

/* The smallest reply message that a client may offer: it holds a header, the fields of one result,
 * and a short sentence. */
#define WIRE_MIN_REPLY_BYTES 128u

/* Body of HELLO: u64 nonce, u32 pid, u16 reply_depth, u16 threads, u32 reply_bytes, u16 name_bytes,
 * name, u16 abilities (may be left out: 0). `nonce` is the secret in the header of every message to
 * this client; `threads` is the number of threads that share the session (for statistics). The
 * server, not wire_get_hello, refuses a depth of 0 and messages that are too small. */
enum {
    WIRE_HELLO_GUEST_LANES = 1 << 0 /* the client understands lane_family */
};
struct wire_hello {
    uint64_t nonce;
    uint32_t pid;
    uint16_t reply_depth;
    uint16_t threads;
    uint32_t reply_bytes;
    struct kv_slice reply_queue;
    uint16_t abilities;
};
bool wire_put_hello(struct write_cursor *cursor, const struct wire_hello *hello);
enum kv_status wire_get_hello(struct read_cursor *cursor, struct wire_hello *hello);

/* Body of WELCOME: u64 cookie, u64 instance (random, a new one each start of the daemon), u64
 * max_value_bytes, u32 server_pid, u16 credits, u16 lane (where this session's small requests go),
 * u16 bulk_lane (where its larger ones go), u16 flags, u32 lane_bytes, u32 bulk_bytes (their
 * message sizes), u16 lane_family (may be left out: 0): what `lane` is the number of; u16 direct
 * (may be left out, with the next two: 0), u64 store_device, u64 store_inode: of the store's
 * directory, by which the shared memory of its index is named (kvstore/shared/shared_store.h); u64
 * store_number (may be left out: 0), in that name.
 * Flags that a reader does not know mean nothing to it. */
enum {
    WIRE_FAMILY_LANES = 0, /* NAME, NAME.l<lane> */
    WIRE_FAMILY_GUESTS = 1 /* NAME.g<lane>; only for clients with WIRE_HELLO_GUEST_LANES */
};
enum {
    WIRE_WELCOME_PRIORITY = 1 << 0,      /* the server wants priorities; without it send with 0 */
    WIRE_WELCOME_SHORT_REPLIES = 1 << 1, /* it knows WIRE_REQUEST_MAY_STOP */
    WIRE_WELCOME_READ_ONLY = 1 << 2,     /* writes of this session are denied */
    WIRE_WELCOME_NETWORK = 1 << 3,       /* answers come over a network: polling is of no use */
    WIRE_WELCOME_TRANSACTIONS = 1 << 4   /* it knows TRANSACT, and WIRE_TELL_TRANSACTIONS */
};
/* Whether the client may read without messages. The file permissions decide in the end. */
enum {
    WIRE_DIRECT_OFF = 0,     /* nobody may: serverk --direct off, or what it needs is missing */
    WIRE_DIRECT_OTHERS = 1,  /* others may, but not the uid of this client */
    WIRE_DIRECT_OFFERED = 2, /* device, inode and number say what to map; else 0 */
};
struct wire_welcome {
    uint64_t cookie;
    uint64_t instance;
    uint64_t max_value_bytes;
    uint32_t server_pid;
    uint16_t credits;
    uint16_t lane;
    uint16_t bulk_lane;
    uint16_t flags;
    uint32_t lane_bytes;
    uint32_t bulk_bytes;
    uint16_t lane_family;
    uint16_t direct; /* WIRE_DIRECT_...; a value that the reader does not know is read as OFF */
    uint64_t store_device;
    uint64_t store_inode;
    uint64_t store_number;
};
bool wire_put_welcome(struct write_cursor *cursor, const struct wire_welcome *welcome);
enum kv_status wire_get_welcome(struct read_cursor *cursor, struct wire_welcome *welcome);

/* Priorities of messages are 0 to WIRE_MAX_PRIORITY; the server takes a higher one for
 * WIRE_MAX_PRIORITY. */
#define WIRE_MAX_PRIORITY 31u

/* The highest priority that the kernel has: no messages of others can keep a message of this
 * priority from being received. HELLO is sent with it, and so is every message in a guest lane of a
 * server that wants no priorities. */
#define WIRE_HIGHEST_PRIORITY 32767u

/* Body of SEGMENT: u64 bytes, u16 name_bytes, name (as for shm_open). */
struct wire_segment_offer {
    uint64_t bytes;
    struct kv_slice name;
};
bool wire_put_segment_offer(struct write_cursor *cursor, const struct wire_segment_offer *offer);
enum kv_status wire_get_segment_offer(struct read_cursor *cursor, struct wire_segment_offer *offer);

/* Body of PART, REPLY_PART and MORE: u32 total_bytes of the whole message (header included; 0 in
 * MORE), u32 offset, then (not in MORE) the bytes. The whole message is a REQUEST or a REPLY. After
 * KV_OK of wire_get_part either offset + bytes.size <= total_bytes and bytes.size > 0, or, as in
 * MORE, total_bytes and bytes.size are 0; the caller checks which of the two the kind demands. */
struct wire_part {
    uint32_t total_bytes;
    uint32_t offset;
    struct kv_slice bytes;
};
bool wire_put_part(struct write_cursor *cursor, const struct wire_part *part);
enum kv_status wire_get_part(struct read_cursor *cursor, struct wire_part *part);

#endif
