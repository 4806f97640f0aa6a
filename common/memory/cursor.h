/*
 * cursor: bounds-checked reading and writing of little-endian fields. A cursor that ran over its
 * end is "failed": it stays failed, reads give zeros and empty slices, writes do nothing; callers
 * check once at the end. No struct is ever laid over foreign bytes.
 */
#ifndef MQKV_COMMON_MEMORY_CURSOR_H
#define MQKV_COMMON_MEMORY_CURSOR_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/memory/copy.h"
#include "mqkv/slice.h"

struct read_cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

struct write_cursor {
    uint8_t *start;
    uint8_t *at;
    uint8_t *end;
    bool failed;
};

static inline struct read_cursor read_cursor(const void *data, size_t size)
{
    struct read_cursor cursor = {data, (const uint8_t *)data + size, false};
    return cursor;
}

static inline struct write_cursor write_cursor(void *data, size_t size)
{
    struct write_cursor cursor = {data, data, (uint8_t *)data + size, false};
    return cursor;
}

static inline size_t read_cursor_left(const struct read_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

static inline size_t write_cursor_left(const struct write_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

static inline size_t write_cursor_used(const struct write_cursor *cursor)
{
    return (size_t)(cursor->at - cursor->start);
}

/* Returns the next `size` bytes, borrowed from the cursor's memory; NULL, and the cursor has
 * failed, if there are fewer. */
static inline const uint8_t *read_bytes(struct read_cursor *cursor, size_t size)
{
    if (cursor->failed || size > read_cursor_left(cursor)) {
        cursor->failed = true;
        return NULL;
    }
    const uint8_t *bytes = cursor->at;
    cursor->at += size;
    return bytes;
}

static inline struct kv_slice read_slice(struct read_cursor *cursor, size_t size)
{
    const uint8_t *bytes = read_bytes(cursor, size);
    return kv_slice(bytes, bytes ? size : 0);
}

/* Returns room for the next `size` bytes, which the caller fills; NULL, and the cursor has failed,
 * if there is none. */
static inline uint8_t *write_room(struct write_cursor *cursor, size_t size)
{
    if (cursor->failed || size > write_cursor_left(cursor)) {
        cursor->failed = true;
        return NULL;
    }
    uint8_t *bytes = cursor->at;
    cursor->at += size;
    return bytes;
}

static inline void write_bytes(struct write_cursor *cursor, const void *data, size_t size)
{
    uint8_t *room = write_room(cursor, size);
    if (room)
        copy_bytes(room, data, size);
}

#define CURSOR_FIELD(bits)                                                              \
    static inline uint##bits##_t read_u##bits(struct read_cursor *cursor)               \
    {                                                                                   \
        const uint8_t *bytes = read_bytes(cursor, sizeof(uint##bits##_t));              \
        uint##bits##_t value = 0;                                                       \
        if (bytes)                                                                      \
            memcpy(&value, bytes, sizeof value);                                        \
        return le##bits##toh(value);                                                    \
    }                                                                                   \
    static inline void write_u##bits(struct write_cursor *cursor, uint##bits##_t value) \
    {                                                                                   \
        value = htole##bits(value);                                                     \
        write_bytes(cursor, &value, sizeof value);                                      \
    }                                                                                   \
    static inline uint##bits##_t load_u##bits(const void *at)                           \
    {                                                                                   \
        uint##bits##_t value;                                                           \
        memcpy(&value, at, sizeof value);                                               \
        return le##bits##toh(value);                                                    \
    }                                                                                   \
    static inline void store_u##bits(void *at, uint##bits##_t value)                    \
    {                                                                                   \
        value = htole##bits(value);                                                     \
        memcpy(at, &value, sizeof value);                                               \
    }

CURSOR_FIELD(16)
CURSOR_FIELD(32)
CURSOR_FIELD(64)
#undef CURSOR_FIELD

#endif
