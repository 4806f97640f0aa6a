/*
 * byte_buffer: bytes that grow at the end and are consumed at the start: what a connection has
 * received, or what it will be sent.
 *
 * The memory of all buffers of the process counts against one budget. If several owners share it,
 * each has at most SHARE_OF_REST times as much as all of them leave: an owner that is alone has
 * three quarters of the budget, and a new one always finds something left. A buffer that cannot
 * grow, because of the budget or of malloc, is "failed": it stays failed, and appending does
 * nothing; callers check once at the end. Threads: a buffer belongs to one thread at a time; the
 * budget may be used by all.
 */
#ifndef MQKV_KRESP_PROTOCOL_BYTE_BUFFER_H
#define MQKV_KRESP_PROTOCOL_BYTE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "mqkv/slice.h"

#define SHARE_OF_REST 3u

/* To whom the memory of buffers is counted; start from {0}. An owner outlives its buffers. */
struct buffer_owner {
    _Atomic size_t bytes;
};

/* Start from {0}, or with an owner. The bytes are data[start] .. data[end - 1]. */
struct byte_buffer {
    char *data;
    size_t start, end, capacity;
    bool failed;
    struct buffer_owner *owner; /* NULL: the buffer counts against the budget alone */
};

/* Sets how many bytes all buffers together may have; before the first call there is no limit.
 * shared: owners share the budget. */
void byte_buffer_set_budget(size_t bytes, bool shared);

/* Returns how many bytes all buffers have now. */
size_t byte_buffer_total(void);

/* Counts bytes that lie in no buffer for the owner (NULL: for the budget alone), who gives them
 * back. False: they would exceed the budget, or the owner's share, and are not counted. */
bool buffer_owner_take(struct buffer_owner *owner, size_t bytes);
void buffer_owner_give_back(struct buffer_owner *owner, size_t bytes);

/* Returns true if all buffers, or those of this one's owner, have more than half of what they may
 * have: work that can wait should wait then. */
bool byte_buffer_is_short(const struct byte_buffer *buffer);

/* Frees the memory; the buffer is empty then, and keeps its owner. */
void byte_buffer_free(struct byte_buffer *buffer);

/* Makes room for at least `bytes` behind the end; false: the buffer failed. Its bytes may move. */
bool byte_buffer_grow(struct byte_buffer *buffer, size_t bytes);

/* Moves the bytes to the start of the memory. If they need no more than keep_bytes, gives back
 * memory that is larger than that. */
void byte_buffer_compact(struct byte_buffer *buffer, size_t keep_bytes);

static inline size_t byte_buffer_size(const struct byte_buffer *buffer)
{
    return buffer->end - buffer->start;
}

static inline struct kv_slice byte_buffer_slice(const struct byte_buffer *buffer)
{
    return kv_slice(buffer->data + buffer->start, byte_buffer_size(buffer));
}

/* Returns where `bytes` may be written; the caller then adds what it has written to `end`. NULL:
 * the buffer failed. */
static inline char *byte_buffer_room(struct byte_buffer *buffer, size_t bytes)
{
    if (bytes > buffer->capacity - buffer->end && !byte_buffer_grow(buffer, bytes))
        return NULL;
    return buffer->data + buffer->end;
}

static inline void byte_buffer_append(struct byte_buffer *buffer, const void *data, size_t size)
{
    char *room = byte_buffer_room(buffer, size);
    if (!room || size == 0)
        return;
    memcpy(room, data, size);
    buffer->end += size;
}

/* Takes bytes away from the start. */
static inline void byte_buffer_consume(struct byte_buffer *buffer, size_t bytes)
{
    buffer->start += bytes;
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
}

#endif
