/*
 * sync_slot: who may sync a file, and what everybody learns of it.
 */
#ifndef MQKV_KVSTORE_SYNC_SYNC_SLOT_H
#define MQKV_KVSTORE_SYNC_SYNC_SLOT_H

#include <stdint.h>

#include "mqkv/error.h"

struct sync;

/* The right to sync the file, to write its header and to replace its current generation: taken for
 * each sync by whoever does it, and by the compactor at its end, who comes before the syncs that
 * are asked for while it waits. Must not hold the file's lock. */
void sync_take_slot(struct sync *sync, uint32_t file);
void sync_release_slot(struct sync *sync, uint32_t file);

/* What was written to the file so far was counted in, for a sync that is to come; some of what was
 * written since may be taken for it. Holds: the slot. */
void sync_cover(struct sync *sync, uint32_t file);

/* Tells waiters and the listener that the file is durable up to `position` (KV_OK), or that it
 * failed for good (KV_NOT_DURABLE). Holds: the file's slot, not its lock. */
void sync_publish(struct sync *sync, uint32_t file, uint64_t position, enum kv_status status);

/* Marks the file read-only after a sync that failed with `error_number`, in the log, for writers,
 * for waiters. Holds: the file's slot, not its lock. */
void sync_give_up(struct sync *sync, uint32_t file, int error_number);

/* sync_publish of what is durable by the commit log, in this room only. */
void sync_publish_logged(struct sync *sync, uint32_t file, uint64_t position);

#endif
