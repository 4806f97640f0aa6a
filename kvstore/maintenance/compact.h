/*
 * compact: background compaction. One thread for the store; it takes the data files that are due
 * (compaction_queue.h), copies the live records of each to a new log, data.NNNN.new, while reads
 * and writes go on, and renames that over the old one.
 *
 * First the log is copied as it is, in passes (copylog.h), then every append goes to the new
 * generation too, under the same lock: so there is an end to it whatever the writers do. When all
 * is copied, the new log is synced, and then, holding the file's sync slot (no write is
 * acknowledged as durable meanwhile): synced once more, swapped and renamed under the lock, and its
 * directory synced. A crash at any step finds the old log or the new one under the name, and all
 * that was acknowledged as durable in either.
 *
 * A failure leaves the old generation as it was.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_COMPACT_H
#define MQKV_KVSTORE_MAINTENANCE_COMPACT_H

#include "kvstore/maintenance/maintenance.h"
#include "mqkv/error.h"

struct compactor;

/* Starts the thread. What `with` names outlives it. */
enum kv_status compactor_create(const struct maintenance *with, struct compactor **compactor,
                                struct kv_error *error);

/* Has the errand of `with` run in the compactor's thread, soon, at a moment at which it changes no
 * index. Any thread; does not wait. */
void compactor_ask(struct compactor *compactor);

/* Stops the queue, abandons what is under way and ends the thread. NULL is harmless. */
void compactor_free(struct compactor *compactor);

#endif
