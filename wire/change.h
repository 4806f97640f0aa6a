/*
 * change: the codec of what WATCH carries: positions in the changes of a data file, and the changes
 * of a page (docs/PROTOCOL.md, 7.15). As in operation.h, no function allocates, and every byte
 * string decodes to a value or to a named error.
 *
 *   position   u64 log, u64 version, u32 place (in units of 8 bytes; 0: 2^35)
 *   change     u16 key_bytes, u16 flags, u32 value_bytes, u64 version, u32 place, [u64 expiry_ms],
 *              [u64 transaction, u32 parts], key, value
 */
#ifndef MQKV_WIRE_CHANGE_H
#define MQKV_WIRE_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/slice.h"
#include "mqkv/status.h"

#define WIRE_POSITION_BYTES 20u

/* How long a WATCH may wait for a change, in milliseconds. */
#define WIRE_WATCH_MAX_MS 30000u

struct wire_position {
    uint64_t log;
    uint64_t version;
    uint64_t place; /* a multiple of 8, up to 2^35 */
};

void wire_put_position(uint8_t at[WIRE_POSITION_BYTES], const struct wire_position *position);
void wire_get_position(const uint8_t at[WIRE_POSITION_BYTES], struct wire_position *position);

enum {
    WIRE_CHANGE_HAS_EXPIRY = 1 << 1,
    WIRE_CHANGE_DELETED = 1 << 6,
    WIRE_CHANGE_EXPIRED = 1 << 7,
    WIRE_CHANGE_GOES_ON = 1 << 8, /* the next change of the file is of the same transaction */
    WIRE_CHANGE_HAS_PART = 1 << 9
};

struct wire_change {
    uint16_t flags; /* DELETED, EXPIRED, GOES_ON; HAS_EXPIRY follows from expiry_ms, HAS_PART from
                       transaction */
    struct kv_slice key;
    struct kv_slice value;
    uint64_t version;
    uint64_t place; /* with log and version: the position behind the change */
    uint64_t expiry_ms;
    uint64_t transaction; /* of several data files; 0: none */
    uint32_t parts;       /* in how many; 0: not known. Only with a transaction */
};

/* Returns the number of bytes that *change takes in a page. */
size_t wire_change_size(const struct wire_change *change);

/* Writes *change at *cursor. False: it does not fit; then nothing is written, and the cursor has
 * not failed. */
bool wire_put_change(struct write_cursor *cursor, const struct wire_change *change);

/* Sets GOES_ON in the change that wire_put_change has written at `at`. */
void wire_change_goes_on(uint8_t *at);

/* Reads *change from *cursor. KV_OK; KV_UNSUPPORTED: an unknown flag; KV_BAD_REQUEST: too few
 * bytes, an empty key, or a part of transaction 0. */
enum kv_status wire_get_change(struct read_cursor *cursor, struct wire_change *change);

#endif
