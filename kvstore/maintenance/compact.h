/*
 * compact: background compaction. One thread for the store; it copies the live records of a data
 * file to a new log, data.NNNN.new, while reads and writes go on, and renames that over the old
 * one.
 *
 * From the first moment on every append to the file is made to the new generation too, under the
 * same lock. What the old log held at that moment is copied a few records a lock hold, if the index
 * still points at them: so there is an end to it whatever the writers do. When all is copied, the
 * new log is synced, and then, holding the file's sync slot (no write is acknowledged as durable
 * meanwhile): synced once more, swapped and renamed under the lock, and its directory synced. A
 * crash at any step finds the old log or the new one under the name, and all that was acknowledged
 * as durable in either.
 *
 * How much a log must have, and how much of it dead, is an option of the store; where a write finds no
 * room, the share of dead bytes alone decides.
 *
 * A failure leaves the old generation as it was; the next try waits, longer each time.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_COMPACT_H
#define MQKV_KVSTORE_MAINTENANCE_COMPACT_H

#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/api/store.h"

enum kv_status compactor_create(struct kvstore *store, struct compactor **compactor,
                                struct kv_error *error);

/* Abandons what is under way. NULL is harmless. */
void compactor_free(struct compactor *compactor);

/* Has the file compacted when its turn comes. Any thread; may hold the file's lock. */
void compactor_want(struct compactor *compactor, uint32_t file);

/* A write has found no room: has every file compacted whose share of dead bytes is large enough, also
 * those that are too small for that otherwise. Looks at all files, once a second at most. Any thread;
 * may hold a file's lock. */
void compactor_want_room(struct compactor *compactor);

#endif
