/*
 * operation: the codec of what REQUEST and REPLY carry: operations, results, and the entries of a
 * scan. As in message.h, no function allocates or reads a byte outside of its cursor, and every
 * byte string decodes to a value or to a named error. All integers are little-endian.
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
    WIRE_OP_EXISTS = 2, /* answers version, expiry and value_bytes, without the value */
    WIRE_OP_PUT = 3,
    WIRE_OP_DELETE = 4,
    WIRE_OP_ADD = 5,
    WIRE_OP_APPEND = 6,
    WIRE_OP_EXCHANGE = 7,  /* get-and-set */
    WIRE_OP_TOUCH = 8,     /* expiry_ms 0: persist */
    WIRE_OP_SCAN = 9,      /* key: the prefix */
    WIRE_OP_STATS = 10,    /* the statistics as JSON text; key: a section, empty: all */
    WIRE_OP_PING = 11,     /* answers the value it was sent */
    WIRE_OP_SYNC = 12,     /* everything written before is on disk when the reply comes */
    WIRE_OP_BACKUP = 13,   /* key: "begin", "read FILE OFFSET BYTES", "touch", "end" */
    WIRE_OP_ADMIN = 14,    /* for the server's owner; key: a command, value: its argument */
    WIRE_OP_WATCH = 15,    /* key: a prefix, value: positions (change.h) */
    WIRE_OP_TRANSACT = 16, /* value: guards and steps (transact_value.h) */
    WIRE_OP_RANGE = 17,    /* key: the first one, value: the bounds (range_value.h); and so */
    WIRE_OP_RANGE_COUNT = 18,
    WIRE_OP_RANGE_DELETE = 19
};
#define WIRE_OPCODES 20u /* the numbers below are opcodes, but for 0 */

#define WIRE_MAX_KEY_BYTES   65535u
#define WIRE_MAX_VALUE_BYTES (64u << 20)

/* What the value of a TRANSACT may have beyond the largest value: such a request is as large as the
 * largest that is sent in parts (docs/PROTOCOL.md, 2.4). */
#define WIRE_TRANSACT_EXTRA_BYTES 131012u

/* The most that the value of a range has: its bounds. */
#define WIRE_RANGE_MAX_BYTES 131082u

static inline bool wire_is_range(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_RANGE || opcode == WIRE_OP_RANGE_COUNT ||
           opcode == WIRE_OP_RANGE_DELETE;
}

/* Returns what the value of the operation may have beyond the largest value of the store. */
static inline uint32_t wire_extra_value_bytes(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_TRANSACT || wire_is_range(opcode) ? WIRE_TRANSACT_EXTRA_BYTES : 0;
}

/* Bits of wire_operation.flags. The table in operation.c says which flags an operation takes; any
 * other flag is KV_UNSUPPORTED. */
enum {
    WIRE_HAS_EXPIRY = 1 << 0,  /* expiry_ms follows */
    WIRE_HAS_VERSION = 1 << 1, /* if-version follows (PUT, DELETE, EXCHANGE) */
    WIRE_IF_ABSENT = 1 << 2,
    WIRE_IF_PRESENT = 1 << 3,
    WIRE_HAS_BOUNDS = 1 << 4,       /* min, max follow (ADD) */
    WIRE_CREATE = 1 << 5,           /* initial follows (ADD) */
    WIRE_KEEP_EXPIRY = 1 << 6,      /* PUT, EXCHANGE */
    WIRE_VALUE_IN_SEGMENT = 1 << 7, /* in place of the value: its u32 offset in the segment */
    WIRE_SYNC_INTERVAL = 1 << 8, /* the write asks for a sync within the server's interval, ... */
    WIRE_SYNC_ALWAYS = 1 << 9,   /* ... or before it is answered */
    WIRE_KEYS_ONLY = 1 << 10,    /* SCAN, WATCH, RANGE: values are left out */
    WIRE_ATOMIC = 1 << 11,       /* SCAN: whole data files, each as it was at one moment; RANGE: all
                                    of it as it was at one moment */
    WIRE_CANONICAL = 1 << 12,    /* ADD: refuse a number that begins with zeros */
    WIRE_GIVE_VERSION = 1 << 13, /* the version that the entry is to get follows (PUT) */
    WIRE_TELL_TRANSACTIONS = 1 << 14 /* WATCH: changes tell to which transaction they belong */
};

/* One operation, decoded. `key` and `value` borrow from the message; a value in the segment is
 * {NULL, size}, and value_offset says where it begins. */
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
 * fields that its flags and opcode name, in the order of the struct (u64 expiry_ms; u64 version,
 * with WIRE_HAS_VERSION or WIRE_GIVE_VERSION; ADD: i64 delta, min, max, initial; SCAN, WATCH: u64
 * cursor, u32 limit), then the key, then the value or, with WIRE_VALUE_IN_SEGMENT, its u32
 * offset. */
#define WIRE_OPERATION_FIXED_BYTES 12u

/* Returns the number of bytes that *operation takes in a message. */
size_t wire_operation_size(const struct wire_operation *operation);

/* Writes *operation at *cursor. False: it does not fit, or its key or value exceeds the limits of
 * the protocol; then nothing is written, and the cursor has not failed. The flags are not checked:
 * the server does that. */
bool wire_put_operation(struct write_cursor *cursor, const struct wire_operation *operation);

/* Reads *operation from *cursor. KV_OK; KV_UNSUPPORTED: an unknown opcode, a flag that the
 * operation does not take, a reserved byte that is not 0; KV_BAD_REQUEST: too few bytes, a key that
 * is missing or not allowed, a size beyond the limits, contradictory flags (two conditions, two
 * durabilities, two versions, new and kept expiry), version 0, min > max. After a failure the
 * cursor is of no further use. */
enum kv_status wire_get_operation(struct read_cursor *cursor, struct wire_operation *operation);

/* Results ----------------------------------------------------------------------------------- */

enum {
    WIRE_RESULT_HAS_VERSION = 1 << 0,
    WIRE_RESULT_HAS_EXPIRY = 1 << 1,
    WIRE_RESULT_HAS_NUMBER = 1 << 2, /* ADD: the sum; APPEND: the new size; SCAN: next cursor;
                                        ranges: range_value.h */
    WIRE_RESULT_IN_SEGMENT = 1 << 3, /* in place of the value: its u32 offset in the segment */
    WIRE_RESULT_NO_VALUE = 1 << 4,   /* value_bytes is the size of the value, which does not follow
                                        (EXISTS; GET with KV_BUFFER_TOO_SMALL) */
    WIRE_RESULT_FOUND = 1 << 5       /* EXCHANGE: there was an old value */
};

/* A result is: u16 status, u16 flags, u32 value_bytes, then the fields that its flags name, in this
 * order: u64 version, u64 expiry_ms, i64 number, and the value (or its u32 offset). The value of a
 * SCAN is a sequence of entries: u16 key_bytes, u16 flags (HAS_EXPIRY), u32 value_bytes, u64
 * version, [u64 expiry_ms], key, value. */
#define WIRE_RESULT_FIXED_BYTES     8u
#define WIRE_RESULT_MAX_FIELD_BYTES 32u /* the fixed part and every field, without the value */

struct wire_result {
    enum kv_status status;
    uint16_t flags;
    uint64_t version;
    uint64_t expiry_ms;
    int64_t number;
    struct kv_slice value; /* {NULL, size} with IN_SEGMENT and NO_VALUE */
    uint32_t value_offset;
};

/* Returns the number of bytes that *result takes in a message. */
size_t wire_result_size(const struct wire_result *result);

/* Writes *result at *cursor. False: it does not fit; then nothing is written, and the cursor has
 * not failed. */
bool wire_put_result(struct write_cursor *cursor, const struct wire_result *result);

/* Reads *result from *cursor. KV_OK; KV_UNSUPPORTED: an unknown flag; KV_BAD_REQUEST: too few
 * bytes, or IN_SEGMENT together with NO_VALUE. result->status may be one that this version does not
 * know. */
enum kv_status wire_get_result(struct read_cursor *cursor, struct wire_result *result);

/* Writes all of *result but the bytes of its value (with IN_SEGMENT that is the whole result), and
 * result->value.size as value_bytes. The caller, which copies a value straight into the reply,
 * writes the value behind them (write_room). False: the fields do not fit, and nothing is written;
 * whether the value will fit is not checked. */
bool wire_put_result_fields(struct write_cursor *cursor, const struct wire_result *result);

struct wire_scan_entry {
    struct kv_slice key;
    struct kv_slice value;
    uint64_t version;
    uint64_t expiry_ms;
    bool passed; /* of a range: no entry, but the key behind which the range goes on */
};

/* Bits of an entry's flags, beside WIRE_RESULT_HAS_EXPIRY. */
enum { WIRE_ENTRY_PASSED = 1 << 0 };

/* Returns the number of bytes that *entry takes in the value of a SCAN. */
size_t wire_scan_entry_size(const struct wire_scan_entry *entry);

/* Writes *entry at *cursor. False: it does not fit; then nothing is written, and the cursor has not
 * failed. */
bool wire_put_scan_entry(struct write_cursor *cursor, const struct wire_scan_entry *entry);

/* Reads *entry from *cursor. KV_OK; KV_UNSUPPORTED: an unknown flag; KV_BAD_REQUEST: too few bytes,
 * or an empty key. */
enum kv_status wire_get_scan_entry(struct read_cursor *cursor, struct wire_scan_entry *entry);

#endif
