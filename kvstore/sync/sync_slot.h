/*
 * sync_slot: who may sync a data file, and what waiters and the listener learn of a sync.
 */
#ifndef MQKV_KVSTORE_SYNC_SYNC_SLOT_H
#define MQKV_KVSTORE_SYNC_SYNC_SLOT_H

#include <stdint.h>

#include "mqkv/error.h"

struct sync;

/* The slot is the right to sync `file`, to write its header and to replace its current generation.
 * The thread that syncs takes it for each sync; the compactor takes it at the end of a compaction,
 * and comes before the syncs that are asked for while it waits. The caller of sync_take_slot does
 * not hold the file's lock. */
void sync_take_slot(struct sync *sync, uint32_t file);
void sync_release_slot(struct sync *sync, uint32_t file);

/* Notes that the caller's snapshot, which the coming sync makes durable, has what was written to
 * `file` so far. Some of what was written since the snapshot may be counted as in it. Holds: the
 * slot. */
void sync_cover(struct sync *sync, uint32_t file);

/* Tells waiters and the listener that `file` is durable up to `position` (`status` KV_OK), or that
 * its syncs have failed for good (KV_NOT_DURABLE). Holds: the file's slot, not its lock. */
void sync_publish(struct sync *sync, uint32_t file, uint64_t position, enum kv_status status);

/* Makes `file` read-only after a sync that failed with `error_number`, says so in the log, and
 * tells waiters. Takes the file's lock. Holds: the file's slot, not its lock. */
void sync_give_up(struct sync *sync, uint32_t file, int error_number);

/* sync_publish of a file that is durable up to `position` by the commit log. For commit_together.
 * */
void sync_publish_logged(struct sync *sync, uint32_t file, uint64_t position);

#endif
