/*
 * value_memory: the memory of a struct clientk_value, which is reused from call to call.
 *
 * Threads: one at a time for each value.
 */
#ifndef MQKV_CLIENTK_BASE_VALUE_MEMORY_H
#define MQKV_CLIENTK_BASE_VALUE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/clientk.h"

/* Like value_reserve, for a value whose memory is too small. */
bool value_grow(struct clientk_value *value, size_t size);

/* Makes room in *value for `size` bytes and the NUL after them, and keeps its bytes. False: no
 * memory. */
static inline bool value_reserve(struct clientk_value *value, size_t size)
{
    return size < value->capacity || value_grow(value, size);
}

#endif
