/*
 * placed_values: the value pointers (record.h) of a log that are the newest of their keys, in the
 * order of the log, each with the size that its content had when it was read. What is in an extent
 * may change while the log is read; the value pointer stays.
 */
#ifndef MQKV_KVSTORE_KVCHECK_PLACED_VALUES_H
#define MQKV_KVSTORE_KVCHECK_PLACED_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct placed_value {
    uint64_t offset;           /* of the value pointer */
    uint64_t content_bytes;    /* in the log; 0: the record was superseded */
    uint64_t superseded_since; /* of a superseded one: the first of its key in a row, or itself */
    bool is_replaced;          /* a later record of the key is its newest */
};

/* Starts from {0}. */
struct placed_values {
    struct placed_value *each;
    size_t count, capacity;
};

/* Adds a value, not replaced, whose record is behind all others. False: there is no memory. */
bool placed_values_add(struct placed_values *values, const struct placed_value *value);

/* Has the record, which was added, be none of the newest any more. Returns its content_bytes; 0 if
 * it is not there. */
uint64_t placed_values_replace(struct placed_values *values, uint64_t offset);

/* Returns the value of the record, until another one is added; NULL: it is not there, or has a
 * content. */
const struct placed_value *placed_values_superseded(const struct placed_values *values,
                                                    uint64_t offset);

void placed_values_free(struct placed_values *values);

#endif
