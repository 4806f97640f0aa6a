#include "wire/change.h"

#include "common/assert/assert.h"
#include "wire/operation.h"

#define CHANGE_FIXED_BYTES 20u
#define PLACE_UNIT         8u
#define PLACE_OF_0         (UINT64_C(1) << 35)

#define CHANGE_FLAGS                                                                            \
    (WIRE_CHANGE_HAS_EXPIRY | WIRE_CHANGE_DELETED | WIRE_CHANGE_EXPIRED | WIRE_CHANGE_GOES_ON | \
     WIRE_CHANGE_HAS_PART)
#define FLAGS_AT 2u

_Static_assert(WIRE_POSITION_BYTES == 2 * sizeof(uint64_t) + sizeof(uint32_t),
               "log, version and place");

static uint64_t place_of(uint32_t units)
{
    return units == 0 ? PLACE_OF_0 : (uint64_t)units * PLACE_UNIT;
}

void wire_put_position(uint8_t at[WIRE_POSITION_BYTES], const struct wire_position *position)
{
    KV_ASSERT(position->place % PLACE_UNIT == 0 && position->place <= PLACE_OF_0);
    store_u64(at, position->log);
    store_u64(at + 8, position->version);
    store_u32(at + 16, (uint32_t)(position->place / PLACE_UNIT));
}

void wire_get_position(const uint8_t at[WIRE_POSITION_BYTES], struct wire_position *position)
{
    *position = (struct wire_position){
        .log = load_u64(at), .version = load_u64(at + 8), .place = place_of(load_u32(at + 16))};
}

size_t wire_change_size(const struct wire_change *change)
{
    return CHANGE_FIXED_BYTES + (change->expiry_ms ? 8u : 0u) + (change->transaction ? 12u : 0u) +
           change->key.size + change->value.size;
}

bool wire_put_change(struct write_cursor *cursor, const struct wire_change *change)
{
    if (change->key.size > WIRE_MAX_KEY_BYTES || change->value.size > WIRE_MAX_VALUE_BYTES ||
        wire_change_size(change) > write_cursor_left(cursor) || cursor->failed)
        return false;
    unsigned flags = change->flags | (change->expiry_ms ? WIRE_CHANGE_HAS_EXPIRY : 0u) |
                     (change->transaction ? WIRE_CHANGE_HAS_PART : 0u);
    write_u16(cursor, (uint16_t)change->key.size);
    write_u16(cursor, (uint16_t)flags);
    write_u32(cursor, (uint32_t)change->value.size);
    write_u64(cursor, change->version);
    write_u32(cursor, (uint32_t)(change->place / PLACE_UNIT));
    if (change->expiry_ms)
        write_u64(cursor, change->expiry_ms);
    if (change->transaction) {
        write_u64(cursor, change->transaction);
        write_u32(cursor, change->parts);
    }
    write_bytes(cursor, change->key.data, change->key.size);
    write_bytes(cursor, change->value.data, change->value.size);
    return true;
}

void wire_change_goes_on(uint8_t *at)
{
    store_u16(at + FLAGS_AT, (uint16_t)(load_u16(at + FLAGS_AT) | WIRE_CHANGE_GOES_ON));
}

enum kv_status wire_get_change(struct read_cursor *cursor, struct wire_change *change)
{
    size_t key_bytes = read_u16(cursor);
    unsigned flags = read_u16(cursor);
    size_t value_bytes = read_u32(cursor);
    change->version = read_u64(cursor);
    change->place = place_of(read_u32(cursor));
    if (flags & ~(unsigned)CHANGE_FLAGS)
        return KV_UNSUPPORTED;
    change->expiry_ms = flags & WIRE_CHANGE_HAS_EXPIRY ? read_u64(cursor) : 0;
    bool has_part = flags & WIRE_CHANGE_HAS_PART;
    change->transaction = has_part ? read_u64(cursor) : 0;
    change->parts = has_part ? read_u32(cursor) : 0;
    change->flags = (uint16_t)(flags & ~(unsigned)(WIRE_CHANGE_HAS_EXPIRY | WIRE_CHANGE_HAS_PART));
    change->key = read_slice(cursor, key_bytes);
    change->value = read_slice(cursor, value_bytes);
    bool sound = !cursor->failed && key_bytes > 0 && (!has_part || change->transaction != 0);
    return sound ? KV_OK : KV_BAD_REQUEST;
}
