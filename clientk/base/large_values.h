/*
 * large_values: the value segment of a session (wire/value_segment.h), through which values travel
 * that are too large for a message. session/segment_growth creates it for the first such value, and
 * a larger one for a larger value. If no segment can be had, `unavailable` stays true, and large
 * values go in fragments.
 *
 * Threads: as the connection.
 */
#ifndef MQKV_CLIENTK_BASE_LARGE_VALUES_H
#define MQKV_CLIENTK_BASE_LARGE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "wire/value_segment.h"

/* Larger values go through the segment if there is one: to copy them through a message, twice,
 * would cost more than the segment does. */
#define VALUE_INLINE_MAX_BYTES 4096u

struct large_values {
    struct wire_segment *segment; /* NULL: none yet */
    uint64_t bytes;
    bool unavailable;
    uint32_t expected_value_bytes; /* about the size of the values read lately */
    uint64_t wanted_bytes;         /* the region that a message would have used; 0: it had enough */
};

/* Copies `value` into the segment, to `offset`. False: /dev/shm has no memory left, and the segment
 * is unavailable from now on. */
bool large_values_put(struct large_values *values, uint64_t offset, struct kv_slice value);

/* Notes that a value of value_bytes bytes was read: the next one is expected to have about that
 * size. */
static inline void large_values_expect(struct large_values *values, uint64_t value_bytes)
{
    uint64_t faded = values->expected_value_bytes - values->expected_value_bytes / 8u;
    uint64_t expected = value_bytes > faded ? value_bytes : faded;
    values->expected_value_bytes = expected > UINT32_MAX ? UINT32_MAX : (uint32_t)expected;
}

/* Closes the segment, and forgets what is known of the session's values. */
void large_values_close(struct large_values *values);

/* Returns `offset` rounded up to a multiple of 8: values in the segment begin there. */
static inline uint64_t large_values_align(uint64_t offset)
{
    return (offset + 7) & ~(uint64_t)7;
}

#endif
