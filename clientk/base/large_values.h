/*
 * large_values: how values travel that are too large for a message: through the session's value
 * segment (wire/value_segment.h). session/segment_growth creates it for the first such value, and a
 * larger one for a larger value. Where none can be had, `unavailable` stays true and large values
 * go in fragments.
 */
#ifndef MQKV_CLIENTK_BASE_LARGE_VALUES_H
#define MQKV_CLIENTK_BASE_LARGE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "wire/value_segment.h"

/* Values above this go through the segment if there is one: copying a value twice through a
 * message then costs more than the segment does. */
#define VALUE_INLINE_MAX_BYTES 4096u

struct large_values {
    struct wire_segment *segment; /* NULL: none yet */
    uint64_t bytes;
    bool unavailable;
    uint32_t expected_value_bytes; /* about the size of the values read lately */
    uint64_t wanted_bytes;         /* the share that a message would have used; 0: it had enough */
};

/* Copies the value to offset. False: /dev/shm has no memory left, and the segment is unavailable
 * from now on. */
bool large_values_put(struct large_values *values, uint64_t offset, struct kv_slice value);

/* Takes note of the size of a value that was read. */
static inline void large_values_expect(struct large_values *values, uint64_t value_bytes)
{
    uint64_t faded = values->expected_value_bytes - values->expected_value_bytes / 8u;
    uint64_t expected = value_bytes > faded ? value_bytes : faded;
    values->expected_value_bytes = expected > UINT32_MAX ? UINT32_MAX : (uint32_t)expected;
}

void large_values_close(struct large_values *values);

/* Values in the segment begin at multiples of 8 bytes. */
static inline uint64_t large_values_align(uint64_t offset)
{
    return (offset + 7) & ~(uint64_t)7;
}

#endif
