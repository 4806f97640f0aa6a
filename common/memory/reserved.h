/*
 * reserved: the space into which the public structures grow. A library that finds something in the
 * space of options was built before the program's header, and must not ignore what it does not
 * know.
 */
#ifndef MQKV_COMMON_MEMORY_RESERVED_H
#define MQKV_COMMON_MEMORY_RESERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the array, a member `reserved`, has nothing in it. */
#define RESERVED_IS_CLEAR(array) reserved_is_clear((array), sizeof(array) / sizeof(array)[0])

/* Likewise of an array of bytes, what is left of a number that a smaller member took. */
#define RESERVED_BYTES_ARE_CLEAR(array) reserved_bytes_are_clear((array), sizeof(array))

static inline bool reserved_bytes_are_clear(const uint8_t *reserved, size_t count)
{
    uint8_t bits = 0;
    for (size_t i = 0; i < count; i++)
        bits |= reserved[i];
    return bits == 0;
}

static inline bool reserved_is_clear(const uint64_t *reserved, size_t count)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++)
        bits |= reserved[i];
    return bits == 0;
}

#define RESERVED_ADVICE "an option of a newer version is set, or the options did not start from {0}"

#endif
