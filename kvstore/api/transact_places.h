/*
 * transact_places: the large values of a transaction on their way into their data files, each as
 * that of a single put (placing.h): they are copied before the transaction takes its locks for
 * good, and begin to count with it. A value that finds no place, or the place of no use when the
 * transaction is done, is copied under the locks.
 *
 * Threads: none of its own; each call says what the caller holds.
 */
#ifndef MQKV_KVSTORE_API_TRANSACT_PLACES_H
#define MQKV_KVSTORE_API_TRANSACT_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/api/operations.h"
#include "kvstore/table/placing.h"

struct transact_place {
    const struct kvstore_step *step;
    struct datafile *file;
    struct placing placing;
    bool is_used;
};

/* {0}: no values. */
struct transact_places {
    struct transact_place *each;
    uint32_t count;
    uint32_t capacity;
};

/* Makes room for `capacity` values. Where there is no memory, none gets a place. */
void transact_places_begin(struct transact_places *places, uint32_t capacity);

/* Takes a place in `store` for the value of `step`, as `write` is to write it, if it can have one.
 * Holds: the file's lock for writing. */
void transact_places_take(struct transact_places *places, struct kvstore *store,
                          const struct kvstore_step *step, const struct write *write);

/* Copies what was not yet copied. The caller holds no lock. */
void transact_places_fill(struct transact_places *places);

/* True: something is to be copied first. Holds: the locks of all files for writing. */
bool transact_places_follow(struct transact_places *places);

/* Returns the value of `step`, which is where it belongs to count, and may be published once; NULL:
 * it is not. Holds: the file's lock for writing, since transact_places_follow. */
struct placing *transact_places_use(struct transact_places *places, const struct kvstore_step *step,
                                    uint64_t expiry_ms);

/* Ends all of them, used or not. Holds: the locks of all files for writing. */
void transact_places_end(struct transact_places *places, struct kvstore *store);

#endif
