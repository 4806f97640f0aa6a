#include "bridges/kresp/protocol/byte_buffer.h"

#include <stdint.h>
#include <stdlib.h>

#define FIRST_CAPACITY_BYTES 1024u

static _Atomic size_t total_bytes;
static _Atomic size_t budget_bytes = SIZE_MAX;
static atomic_bool budget_is_shared;

void byte_buffer_set_budget(size_t bytes, bool shared)
{
    atomic_store(&budget_bytes, bytes);
    atomic_store(&budget_is_shared, shared);
}

size_t byte_buffer_total(void)
{
    return atomic_load(&total_bytes);
}

/* Returns true if the owner may have `bytes` while all owners have `total`, which is within the
 * budget. */
static bool is_within_share(size_t bytes, size_t total)
{
    return bytes / SHARE_OF_REST <= atomic_load(&budget_bytes) - total;
}

bool byte_buffer_is_short(const struct byte_buffer *buffer)
{
    size_t total = atomic_load(&total_bytes);
    if (total > atomic_load(&budget_bytes) / 2)
        return true;
    return buffer->owner && atomic_load(&budget_is_shared) &&
           !is_within_share(2 * atomic_load(&buffer->owner->bytes), total);
}

void buffer_owner_give_back(struct buffer_owner *owner, size_t bytes)
{
    atomic_fetch_sub(&total_bytes, bytes);
    if (owner)
        atomic_fetch_sub(&owner->bytes, bytes);
}

bool buffer_owner_take(struct buffer_owner *owner, size_t bytes)
{
    size_t total = atomic_fetch_add(&total_bytes, bytes) + bytes;
    size_t owned = owner ? atomic_fetch_add(&owner->bytes, bytes) + bytes : 0;
    if (total <= atomic_load(&budget_bytes) &&
        (!atomic_load(&budget_is_shared) || is_within_share(owned, total)))
        return true;
    buffer_owner_give_back(owner, bytes);
    return false;
}

/* Changes the memory to `capacity` bytes, and keeps those up to `end`. */
static bool resize(struct byte_buffer *buffer, size_t capacity)
{
    if (capacity == 0)
        return false;
    size_t more = capacity > buffer->capacity ? capacity - buffer->capacity : 0;
    if (more > 0 && !buffer_owner_take(buffer->owner, more))
        return false;
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        buffer_owner_give_back(buffer->owner, more);
        return false;
    }
    if (capacity < buffer->capacity)
        buffer_owner_give_back(buffer->owner, buffer->capacity - capacity);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void byte_buffer_free(struct byte_buffer *buffer)
{
    buffer_owner_give_back(buffer->owner, buffer->capacity);
    free(buffer->data);
    *buffer = (struct byte_buffer){.owner = buffer->owner};
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
