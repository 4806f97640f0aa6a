/*
 * range_value: the codec of what RANGE, RANGE_COUNT and RANGE_DELETE carry as their value beside
 * the key, which is where the range begins (docs/PROTOCOL.md, 7.17). No function allocates, and
 * every byte string decodes to a value or to a named error.
 *
 *   value     u32 limit, u16 way, u16 to_bytes, u16 prefix_bytes, u16 0; to; prefix
 *
 * A page of RANGE is a sequence of entries as a scan has them (operation.h). The last one may have
 * the flag WIRE_ENTRY_PASSED: then it is none, and has nothing but a key.
 */
#ifndef MQKV_WIRE_RANGE_VALUE_H
#define MQKV_WIRE_RANGE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "wire/operation.h"

/* Bits of `way`. */
enum {
    WIRE_RANGE_REVERSE = 1 << 0, /* the last key first */
    WIRE_RANGE_BEHIND = 1 << 1   /* the key of the operation itself is not meant */
};

#define WIRE_RANGE_FIXED_BYTES 12u

/* The bounds beside the key; slices borrow from the message. */
struct wire_range_bounds {
    uint32_t limit; /* entries; 0: the server's choice */
    uint16_t way;
    struct kv_slice to;     /* behind the last key, itself not meant; empty: no end */
    struct kv_slice prefix; /* of the keys */
};

/* Returns the number of bytes that *bounds take. */
size_t wire_range_bounds_size(const struct wire_range_bounds *bounds);

/* Writes *bounds at *cursor. False: they do not fit, or a key is too long; then nothing is written,
 * and the cursor has not failed. */
bool wire_put_range_bounds(struct write_cursor *cursor, const struct wire_range_bounds *bounds);

/* Reads *bounds, which take all of `value`. KV_OK; KV_UNSUPPORTED: an unknown way, a reserved byte
 * that is not 0; KV_BAD_REQUEST: too few bytes, or too many. */
enum kv_status wire_get_range_bounds(struct kv_slice value, struct wire_range_bounds *bounds);

/* The number of the result of RANGE, RANGE_COUNT and RANGE_DELETE: a count (RANGE: 1 if the range
 * goes on behind the page, else 0), and above it the data file of the record that the result's
 * version tells about, after KV_CORRUPT and KV_IO. */
#define WIRE_RANGE_FILE_SHIFT 52

static inline uint64_t wire_range_count(int64_t number)
{
    return (uint64_t)number & ((UINT64_C(1) << WIRE_RANGE_FILE_SHIFT) - 1);
}

static inline unsigned wire_range_file(int64_t number)
{
    return (unsigned)((uint64_t)number >> WIRE_RANGE_FILE_SHIFT);
}

#endif
