/*
 * operation: the codec of what REQUEST and REPLY carry: operations, results, and the entries of a
 * scan. As in message.h, nothing is allocated, no byte outside the cursor is read, and everything
 * decodes to a value or to a named error. All integers are little-endian.
 */
#ifndef MQKV_WIRE_OPERATION_H
#define MQKV_WIRE_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/slice.h"
#include "mqkv/status.h"

/* Operations -------------------------------------------------------------------------------- */

enum wire_opcode {
    WIRE_OP_GET = 1,
    WIRE_OP_EXISTS = 2, /* answers version, expiry, value_bytes; no value. Serves ttl too. */
    WIRE_OP_PUT = 3,
    WIRE_OP_DELETE = 4,
    WIRE_OP_ADD = 5,
    WIRE_OP_APPEND = 6,
    WIRE_OP_EXCHANGE = 7, /* get-and-set */
    WIRE_OP_TOUCH = 8,    /* expiry_ms 0: persist */
    WIRE_OP_SCAN = 9,     /* key: the prefix */
    WIRE_OP_STATS = 10,   /* the statistics as JSON text; key: a section, empty: all */
    WIRE_OP_PING = 11,    /* answers the value it was sent */
    WIRE_OP_SYNC = 12,    /* everything written before is on disk when the reply comes */
    WIRE_OP_BACKUP = 13,  /* key: "begin", "read FILE OFFSET BYTES", "touch", "end" */
    WIRE_OP_ADMIN = 14,   /* for the server's owner; key: a command, value: its argument */
    WIRE_OP_WATCH = 15    /* key: a prefix, value: positions (change.h) */
};

#define WIRE_MAX_KEY_BYTES   65535u
#define WIRE_MAX_VALUE_BYTES (64u << 20)

/* Bits of wire_operation.flags. The table in operation.c says which operation takes which; others
 * give KV_UNSUPPORTED. */
enum {
    WIRE_HAS_EXPIRY = 1 << 0,  /* expiry_ms follows */
    WIRE_HAS_VERSION = 1 << 1, /* if-version follows (PUT, DELETE, EXCHANGE) */
    WIRE_IF_ABSENT = 1 << 2,
    WIRE_IF_PRESENT = 1 << 3,
    WIRE_HAS_BOUNDS = 1 << 4,       /* min, max follow (ADD) */
    WIRE_CREATE = 1 << 5,           /* initial follows (ADD) */
    WIRE_KEEP_EXPIRY = 1 << 6,      /* PUT, EXCHANGE */
    WIRE_VALUE_IN_SEGMENT = 1 << 7, /* instead of the value its u32 offset in the segment */
    WIRE_SYNC_INTERVAL = 1 << 8,    /* this write asks for at least ... */
    WIRE_SYNC_ALWAYS = 1 << 9,
    WIRE_KEYS_ONLY = 1 << 10,   /* SCAN, WATCH: values are left out */
    WIRE_ATOMIC = 1 << 11,      /* SCAN: whole data files, each seen at one moment */
    WIRE_CANONICAL = 1 << 12,   /* ADD: no zeros lead in the number that is there */
    WIRE_GIVE_VERSION = 1 << 13 /* the version that the entry is to get follows (PUT) */
};

/* One operation in the clear. Slices borrow from the message (or, for a value in the segment, value
 * is {NULL, size} and value_offset its place). */
struct wire_operation {
    enum wire_opcode opcode;
    uint16_t flags;
    struct kv_slice key;
    struct kv_slice value;
    uint32_t value_offset;
    uint64_t expiry_ms;
    uint64_t version;
    int64_t delta, min, max, initial; /* ADD; min and max are the int64 limits where not given */
    uint64_t cursor;                  /* SCAN; WATCH: the data file to begin with */
    uint32_t limit;                   /* SCAN; WATCH: how long it may wait, in ms */
};

/* An operation is: u8 opcode, u8 0, u16 flags, u16 key_bytes, u16 0, u32 value_bytes, then the
 * fields its flags and opcode name in the order of the struct (u64 expiry_ms, u64 version, whether
 * it is a condition or to be given; ADD: i64 delta, min, max, initial; SCAN, WATCH: u64 cursor, u32
 * limit), then the key, then the value or, with WIRE_VALUE_IN_SEGMENT, its u32 offset. */
#define WIRE_OPERATION_FIXED_BYTES 12u

/* Bytes that the operation takes in a message. */
size_t wire_operation_size(const struct wire_operation *operation);

/* False if it does not fit, or if its key or value exceeds the limits of the protocol; then nothing
 * is written, and the cursor has not failed. Flags are not checked here: the server does. */
bool wire_put_operation(struct write_cursor *cursor, const struct wire_operation *operation);

/* KV_OK; KV_UNSUPPORTED: unknown opcode, a flag that the operation does not take, a reserved byte
 * that is not 0; KV_BAD_REQUEST: truncated, a key too many or missing, a size beyond the limits,
 * contradictory flags (two conditions, two durabilities, two versions, new and kept expiry),
 * version 0, min > max. After a failure the cursor is of no further use. */
enum kv_status wire_get_operation(struct read_cursor *cursor, struct wire_operation *operation);

/* Results ----------------------------------------------------------------------------------- */

enum {
    WIRE_RESULT_HAS_VERSION = 1 << 0,
    WIRE_RESULT_HAS_EXPIRY = 1 << 1,
    WIRE_RESULT_HAS_NUMBER = 1 << 2, /* ADD: the sum; APPEND: the new size; SCAN: next cursor */
    WIRE_RESULT_IN_SEGMENT = 1 << 3, /* instead of the value its u32 offset in the segment */
    WIRE_RESULT_NO_VALUE = 1 << 4,   /* value_bytes tells the size, the value itself is not here
                                          (EXISTS; GET with KV_BUFFER_TOO_SMALL) */
    WIRE_RESULT_FOUND = 1 << 5       /* EXCHANGE: there was an old value */
};

/* A result is: u16 status, u16 flags, u32 value_bytes, then the fields its flags name in this
 * order: u64 version, u64 expiry_ms, i64 number, and the value (or its u32 offset). A SCAN's value
 * is a run of entries: u16 key_bytes, u16 flags (HAS_EXPIRY), u32 value_bytes, u64 version, [u64
 * expiry_ms], key, value. */
#define WIRE_RESULT_FIXED_BYTES     8u
#define WIRE_RESULT_MAX_FIELD_BYTES 32u /* fixed part and every field, without the value */

struct wire_result {
    enum kv_status status;
    uint16_t flags;
    uint64_t version;
    uint64_t expiry_ms;
    int64_t number;
    struct kv_slice value; /* {NULL, size} with IN_SEGMENT and NO_VALUE */
    uint32_t value_offset;
};

/* Bytes that the result takes in a message. */
size_t wire_result_size(const struct wire_result *result);

/* False if it does not fit; then nothing is written, and the cursor has not failed. */
bool wire_put_result(struct write_cursor *cursor, const struct wire_result *result);

/* KV_OK; KV_UNSUPPORTED: unknown flag; KV_BAD_REQUEST: truncated, or IN_SEGMENT together with
 * NO_VALUE. The status of the result itself may be one that this version does not know. */
enum kv_status wire_get_result(struct read_cursor *cursor, struct wire_result *result);

/* For a worker that copies a value straight into the reply: writes everything but the value's bytes
 * (with IN_SEGMENT that is the whole result), with value_bytes = result->value.size. The caller
 * writes the value right behind (write_room). False, and nothing is written, if the fields do not
 * fit; whether the value will fit is not checked. */
bool wire_put_result_fields(struct write_cursor *cursor, const struct wire_result *result);

struct wire_scan_entry {
    struct kv_slice key;
    struct kv_slice value;
    uint64_t version;
    uint64_t expiry_ms;
};

size_t wire_scan_entry_size(const struct wire_scan_entry *entry);

/* False if it does not fit; then nothing is written, and the cursor has not failed. */
bool wire_put_scan_entry(struct write_cursor *cursor, const struct wire_scan_entry *entry);

/* KV_OK; KV_UNSUPPORTED: unknown flag; KV_BAD_REQUEST: truncated, or an empty key. */
enum kv_status wire_get_scan_entry(struct read_cursor *cursor, struct wire_scan_entry *entry);

#endif
