/*
 * value_memory: the memory of a struct clientk_value, which is reused from call to call.
 */
#ifndef MQKV_CLIENTK_BASE_VALUE_MEMORY_H
#define MQKV_CLIENTK_BASE_VALUE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/clientk.h"

/* As value_hold, of a value that is too small. */
bool value_grow(struct clientk_value *value, size_t size);

/* Makes room for size bytes and the NUL after them. What is there stays. False: no memory. */
static inline bool value_hold(struct clientk_value *value, size_t size)
{
    return size < value->capacity || value_grow(value, size);
}

#endif
