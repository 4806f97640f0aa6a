/*
 * compact: background compaction. One thread of the store takes the data files that are due
 * (compaction_queue.h), copies the live records of each to a new log, data.NNNN.new, while reads
 * and writes continue, and renames the new log over the old one.
 *
 * First the log is copied as it is, in passes (copylog.h), then every append goes to the new
 * generation too, under the same lock: so the copying ends whatever the writers do. When all is
 * copied, the new log is synced; then, while the compactor has the file's sync slot (so that no
 * write is acknowledged as durable), the log is synced once more, swapped and renamed under the
 * lock, and its directory is synced. A crash at any step leaves the old log or the new one under
 * the name, and all that was acknowledged as durable in either.
 *
 * A failure leaves the old generation as it was.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_COMPACT_H
#define MQKV_KVSTORE_MAINTENANCE_COMPACT_H

#include "kvstore/maintenance/maintenance.h"
#include "mqkv/error.h"

struct compactor;

/* Starts the thread; the parts that `with` names outlive it. Fails with a sentence in `error`. */
enum kv_status compactor_create(const struct maintenance *with, struct compactor **compactor,
                                struct kv_error *error);

/* Has the errand of `with` run in the compactor's thread, soon, at a moment at which that thread
 * changes no index. Any thread; does not wait. */
void compactor_ask(struct compactor *compactor);

/* Stops the queue, abandons a compaction that is under way and ends the thread. NULL is
 * harmless. */
void compactor_free(struct compactor *compactor);

#endif
