/*
 * takeover: finds what a generation holds, instead of by recovery, in the words and the index that
 * a process which was killed has left in shared memory (shared_store.h). A generation that is in
 * doubt is not taken over: then the log is read, as after any other death.
 *
 * Bytes of the log that the dead process wrote are in the kernel's memory, synced or not, and stay
 * there as long as the machine runs: all of them count, and the next sync makes them durable. But
 * if a sync failed, or was under way when the process died, so that nobody knows whether it failed,
 * the kernel may have dropped some bytes (sync.h): in the first case nothing is taken over, in the
 * second the part that was not synced is first read again from the disk.
 *
 * Nor need the log be the one that the index is of: the storage may have lost what was not synced,
 * or somebody may have put the file back to an earlier state, under the same inode.
 * 1. The records from the synced offset of the header to the tail are read and verified. A log only
 *    grows, and its header never says more than was on disk: a record in that part is missing in an
 *    earlier state of the file, and in a file that lost something. Where the store is synced, the
 *    part is a second's worth of writes; with KVSTORE_SYNC_NONE all writes since the open.
 * 2. The earlier state may also have been opened where this object was not seen, and written to as
 *    far: each opening for writing that reads the log or a checkpoint begins a chapter in the
 *    header (file_chapters.h), and the number of the last one is part of the sum `check`.
 * Neither step sees a change to synced records under an unchanged header: that is damage, which the
 * checksum of a record tells when it is read, as after a start from a checkpoint.
 */
#ifndef MQKV_KVSTORE_TABLE_TAKEOVER_H
#define MQKV_KVSTORE_TABLE_TAKEOVER_H

#include <stdbool.h>

#include "kvstore/index/arena.h"
#include "kvstore/table/generation.h"
#include "mqkv/error.h"

/* If `left`, the words that a process has left, are those of `generation`, whose log was just
 * opened, and log and index are whole: claims the index in `arena`, and sets the log's tail. False:
 * nothing has changed. */
bool takeover_claim(struct generation *generation, struct shared_generation *left,
                    struct arena *arena);

/* Makes the log of such a generation writable from its tail on, with nothing left behind the tail.
 * Fails with a sentence in `error`. */
enum kv_status takeover_make_writable(struct generation *generation, struct kv_error *error);

#endif
