/*
 * value: the memory of a struct clientk_value.
 */
#ifndef MQKV_CLIENTK_BASE_VALUE_H
#define MQKV_CLIENTK_BASE_VALUE_H

#include <stdbool.h>

#include "mqkv/clientk.h"

/* Makes room for size bytes and the NUL after them; false: no memory. */
bool value_reserve(struct clientk_value *value, size_t size);

/* Says that size bytes, for which there is room, are the value now. */
void value_end(struct clientk_value *value, size_t size);

#endif
