/*
 * sweep: the thread that takes expired entries out of the indexes, every sweep_interval_ms. It
 * visits only segments of an index that may hold an expired entry, at most one per lock hold, and
 * sleeps without wake-ups while no entry of the store has an expiry.
 *
 * Nothing is written: an expired entry is absent for every call, whether it was swept or not, and a
 * recovery leaves it out by its own expiry, unless somebody may follow the log: if changes are kept
 * (past_logs.h) each entry gets a record, a deletion with an expiry. If they are not, a file that
 * is being compacted is swept when that is over.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_SWEEP_H
#define MQKV_KVSTORE_MAINTENANCE_SWEEP_H

#include "mqkv/error.h"
#include "kvstore/maintenance/maintenance.h"
#include "kvstore/table/datafile.h"

struct sweeper;

/* Starts the thread. What `with` names outlives it. */
enum kv_status sweeper_create(const struct maintenance *with, struct sweeper **sweeper,
                              struct kv_error *error);

/* Ends the thread. NULL is harmless. */
void sweeper_free(struct sweeper *sweeper);

/* Notes that an entry with an expiry was written. Cheap. Holds: the file's lock for writing. */
void sweeper_note_expiry(struct sweeper *sweeper);

/* Takes the entry of a lookup that found one out of cache and index, without a record: positions in
 * the file's changes are void from then on, which past_logs_tell reports. An expired entry stays
 * away, even if the clock is set back; any other (eviction) is back after a start that reads the
 * log. False: that could not be noted, and the entry stays. cache NULL: there is none. While
 * file->copying it is for the compactor alone, of what it has not copied. Holds: the file's lock
 * for writing. */
bool sweep_out(struct cache *cache, struct datafile *file, struct lookup *lookup);

#endif
