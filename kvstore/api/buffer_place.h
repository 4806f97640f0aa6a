/*
 * buffer_place: a caller's buffer as the place of a value (kvstore_place).
 */
#ifndef MQKV_KVSTORE_API_BUFFER_PLACE_H
#define MQKV_KVSTORE_API_BUFFER_PLACE_H

#include <stddef.h>

struct buffer_place {
    void *buffer; /* NULL: of capacity 0 */
    size_t capacity;
};

/* An empty value has a place everywhere. */
static inline void *place_in_buffer(void *context, size_t bytes)
{
    const struct buffer_place *place = context;
    if (bytes > place->capacity)
        return NULL;
    return bytes > 0 ? place->buffer : context;
}

#endif
