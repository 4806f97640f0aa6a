#include "wire/range_value.h"

#define KNOWN_WAYS (WIRE_RANGE_REVERSE | WIRE_RANGE_BEHIND)

_Static_assert(WIRE_RANGE_FIXED_BYTES + 2 * WIRE_MAX_KEY_BYTES == WIRE_RANGE_MAX_BYTES,
               "bounds with two of the longest keys");

size_t wire_range_bounds_size(const struct wire_range_bounds *bounds)
{
    return WIRE_RANGE_FIXED_BYTES + bounds->to.size + bounds->prefix.size;
}

bool wire_put_range_bounds(struct write_cursor *cursor, const struct wire_range_bounds *bounds)
{
    if (bounds->to.size > WIRE_MAX_KEY_BYTES || bounds->prefix.size > WIRE_MAX_KEY_BYTES ||
        wire_range_bounds_size(bounds) > write_cursor_left(cursor) || cursor->failed)
        return false;
    write_u32(cursor, bounds->limit);
    write_u16(cursor, bounds->way);
    write_u16(cursor, (uint16_t)bounds->to.size);
    write_u16(cursor, (uint16_t)bounds->prefix.size);
    write_u16(cursor, 0);
    write_bytes(cursor, bounds->to.data, bounds->to.size);
    write_bytes(cursor, bounds->prefix.data, bounds->prefix.size);
    return true;
}

enum kv_status wire_get_range_bounds(struct kv_slice value, struct wire_range_bounds *bounds)
{
    struct read_cursor cursor = read_cursor(value.data, value.size);
    bounds->limit = read_u32(&cursor);
    bounds->way = read_u16(&cursor);
    size_t to_bytes = read_u16(&cursor);
    size_t prefix_bytes = read_u16(&cursor);
    unsigned zero = read_u16(&cursor);
    bounds->to = read_slice(&cursor, to_bytes);
    bounds->prefix = read_slice(&cursor, prefix_bytes);
    if (cursor.failed || read_cursor_left(&cursor) > 0)
        return KV_BAD_REQUEST;
    return (bounds->way & ~(unsigned)KNOWN_WAYS) || zero != 0 ? KV_UNSUPPORTED : KV_OK;
}
