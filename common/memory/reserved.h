/*
 * reserved: the space into which the public structures grow. A library that finds that space of
 * options in use is older than the header that the program was built with, and must not ignore an
 * option that it does not know.
 */
#ifndef MQKV_COMMON_MEMORY_RESERVED_H
#define MQKV_COMMON_MEMORY_RESERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if `array`, a member `reserved`, is all zeros. */
#define RESERVED_IS_CLEAR(array) reserved_is_clear((array), sizeof(array) / sizeof(array)[0])

/* True if an array of bytes is all zeros: the rest of a number whose first bytes a smaller member
 * took. */
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
