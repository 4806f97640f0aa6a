#include "clientk/base/value_memory.h"

#include <stdlib.h>

/* How much more than needed a value gets at least when it grows. */
#define MIN_SPARE_BYTES 64u

bool value_grow(struct clientk_value *value, size_t size)
{
    /* More than needed, so that a value that grows bit by bit is not moved each time. */
    size_t capacity = size + size / 8 + MIN_SPARE_BYTES;
    char *data = realloc(value->data, capacity);
    if (!data)
        return false;
    value->data = data;
    value->capacity = capacity;
    return true;
}

void clientk_value_free(struct clientk_value *value)
{
    if (!value)
        return;
    free(value->data);
    *value = (struct clientk_value){.data = NULL};
}
