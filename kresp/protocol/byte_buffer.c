#include "kresp/protocol/byte_buffer.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define FIRST_CAPACITY_BYTES 1024u

static _Atomic size_t total_bytes;
static _Atomic size_t budget_bytes = SIZE_MAX;

void byte_buffer_set_budget(size_t bytes)
{
    atomic_store(&budget_bytes, bytes);
}

size_t byte_buffer_total(void)
{
    return atomic_load(&total_bytes);
}

bool byte_buffer_is_short(void)
{
    return atomic_load(&total_bytes) > atomic_load(&budget_bytes) / 2;
}

/* Changes the memory to so many bytes, of which those up to end are kept. */
static bool resize(struct byte_buffer *buffer, size_t capacity)
{
    if (capacity == 0)
        return false;
    if (capacity > buffer->capacity) {
        size_t more = capacity - buffer->capacity;
        if (atomic_fetch_add(&total_bytes, more) + more > atomic_load(&budget_bytes)) {
            atomic_fetch_sub(&total_bytes, more);
            return false;
        }
    }
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        if (capacity > buffer->capacity)
            atomic_fetch_sub(&total_bytes, capacity - buffer->capacity);
        return false;
    }
    if (capacity < buffer->capacity)
        atomic_fetch_sub(&total_bytes, buffer->capacity - capacity);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void byte_buffer_free(struct byte_buffer *buffer)
{
    atomic_fetch_sub(&total_bytes, buffer->capacity);
    free(buffer->data);
    *buffer = (struct byte_buffer){0};
}

bool byte_buffer_grow(struct byte_buffer *buffer, size_t bytes)
{
    if (buffer->failed)
        return false;
    if (bytes <= buffer->capacity - buffer->end)
        return true;
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_CAPACITY_BYTES;
    while (capacity - buffer->end < bytes) {
        if (capacity > SIZE_MAX / 2) {
            buffer->failed = true;
            return false;
        }
        capacity *= 2;
    }
    if (!resize(buffer, capacity) && !resize(buffer, buffer->end + bytes))
        buffer->failed = true;
    return !buffer->failed;
}

void byte_buffer_compact(struct byte_buffer *buffer, size_t keep_bytes)
{
    size_t size = byte_buffer_size(buffer);
    if (buffer->start > 0 && size > 0)
        memmove(buffer->data, buffer->data + buffer->start, size);
    buffer->start = 0;
    buffer->end = size;
    if (buffer->capacity > keep_bytes && size <= keep_bytes && keep_bytes > 0)
        resize(buffer, keep_bytes);
}
