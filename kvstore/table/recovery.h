/*
 * recovery: what a generation holds is found out at open: from the checkpoint of the index if there
 * is one that matches the log (checkpoint.h), else by reading the log from its start.
 *
 * The log ends at the first place that holds no valid record. At or after the synced offset of its
 * header, what follows is a torn tail: remains of writes that were under way when the machine or
 * the process died, and that nobody was promised. It is cut off. Before that offset it is damage:
 * KV_CORRUPT, and nothing is changed.
 *
 * Intact records behind that place are what a killed process never leaves (boot.h). If the machine
 * has been started again since the file was opened for writing, a power failure may have: then they
 * are cut off with the torn tail, and kept in a file of their own (remains.h). If not, or if that
 * is not known, it is damage.
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

/* Versions of records, and version floors, are below: else there would be none to go on with. */
#define RECOVERY_VERSION_LIMIT (RECORD_VERSION_LIMIT - RECOVERY_VERSION_LEAP)

struct recovery {
    uint64_t cut_bytes; /* of a torn tail, from its start to the last byte that is not zero */
    bool from_checkpoint;
    bool keep_expired; /* the caller's: what has expired is left to the sweeper */
};

/* Adds to a text that begins with a file's name where the file is and, of KV_CORRUPT, the command
 * that saves what is intact. Returns status. error may be NULL. */
enum kv_status recovery_explain(const char *dir, enum kv_status status, struct kv_error *error);

/* Fills a generation whose log was just opened. `dir` is for the texts. A log that is not writable
 * is left as it is, torn tail and all. A writable one that was read is synced afterwards, and has
 * no checkpoint any more. */
enum kv_status recovery_run(struct generation *generation, int dir_fd, const char *dir,
                            struct recovery *recovery, struct kv_error *error);

#endif
