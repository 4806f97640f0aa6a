/*
 * recovery: finds out at open what a generation holds: from the checkpoint of the index if there is
 * one that matches the log (checkpoint.h), else by reading the log from its start.
 *
 * The log ends at the first offset without a valid record. If that is at or after the synced offset
 * of the header, the bytes from there on are a torn tail: remains of writes that were under way
 * when the machine or the process died, and that nobody was promised. The tail is cut off. If the
 * log ends before the synced offset, it is damaged: KV_CORRUPT, and nothing is changed.
 *
 * A killed process never leaves intact records behind the end of the log (boot.h). A power failure
 * may have left some if the machine has been started again since the file was opened for writing:
 * then they are cut off with the torn tail, and kept in a file of their own (remains.h). If it has
 * not been, or if that is not known, the log is damaged.
 */
#ifndef MQKV_KVSTORE_TABLE_RECOVERY_H
#define MQKV_KVSTORE_TABLE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/table/generation.h"

/* Writes that were not synced may be lost in a crash together with the versions that their callers
 * were told; these must not be given again. A file of 32 GiB has room for fewer than 2^32 records
 * of 24 bytes or more, so no more versions than that can have been lost since the last sync. */
#define RECOVERY_VERSION_LEAP (UINT64_C(1) << 32)

/* Versions of records, and version floors, are below this, so that there are higher ones to give.
 * */
#define RECOVERY_VERSION_LIMIT (RECORD_VERSION_LIMIT - RECOVERY_VERSION_LEAP)

struct recovery {
    uint64_t cut_bytes; /* of a torn tail, from its start to the last byte that is not zero */
    bool from_checkpoint;
    bool keep_expired; /* set by the caller: expired entries are left to the sweeper */
};

/* Adds to the sentence in `error`, which begins with a file's name, the directory `dir` and, if
 * `status` is KV_CORRUPT, the command that saves what is intact. Returns status. `error` may be
 * NULL. */
enum kv_status recovery_explain(const char *dir, enum kv_status status, struct kv_error *error);

/* Fills `generation`, whose log was just opened, and tells in *recovery how. `dir` is for the
 * sentences. A log that is not writable is left as it is, with its torn tail. A writable log that
 * was read is synced afterwards, and its checkpoint does not match any more. */
enum kv_status recovery_run(struct generation *generation, int dir_fd, const char *dir,
                            struct recovery *recovery, struct kv_error *error);

#endif
