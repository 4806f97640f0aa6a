/*
 * sweep: the thread that takes expired entries out of the indexes, every sweep_interval_ms. It
 * visits only segments of an index that may hold an expired entry, at most one a lock hold, and
 * sleeps without wake-ups while no entry of the store has an expiry.
 *
 * Nothing is written: an expired entry is absent for every call, whether it was swept or not, and a
 * recovery leaves it out by its own expiry.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_SWEEP_H
#define MQKV_KVSTORE_MAINTENANCE_SWEEP_H

#include "mqkv/error.h"
#include "kvstore/api/store.h"

enum kv_status sweeper_create(struct kvstore *store, struct sweeper **sweeper,
                              struct kv_error *error);

/* NULL is harmless. */
void sweeper_free(struct sweeper *sweeper);

/* Tells that an entry with an expiry was written. Cheap; holds: the file's lock for writing. */
void sweeper_note_expiry(struct sweeper *sweeper);

#endif
