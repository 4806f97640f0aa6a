/*
 * optimistic: kvstore_get without a lock.
 *
 * 1. Register as a reader (readers.h): from then on the generation that is found in use stays.
 * 2. Look the key up in its index, and again if items were moved meanwhile (index.h).
 * 3. The lookup now holds: at one moment since the call began, what it says was true. The record it
 *    found never changes, since a store that is read without locks gives no extent another content
 *    (write_placing_terms), and is there until step 4, so that verifying and copying it, however
 *    large, needs no second look.
 * 4. Leave.
 *
 * That the generation was replaced meanwhile, by a compaction, does not matter: an index that is
 * out of use does not change any more, and its last state was true when it was replaced, which is
 * since the call began.
 *
 * Lookups are repeated a few times; then the lock is taken after all: no writer can keep a reader
 * forever.
 */
#ifndef MQKV_LAB_LOCKING_OPTIMISTIC_H
#define MQKV_LAB_LOCKING_OPTIMISTIC_H

#include "kvstore/core/context.h"
#include "kvstore/table/generation.h"

/* Steps 1 and 2: the lookup in the generation that was in use. The caller ends with readers_leave;
 * until then both are valid. NULL: to be done under the lock. Counts retries and fallbacks of the
 * file. Only where the context has readers. */
struct reader *optimistic_find(const struct store_context *context, struct datafile *file,
                               uint32_t hash, struct kv_slice key,
                               const struct generation **generation, struct lookup *lookup);

#endif
