/*
 * recovery: finds out at open what a generation holds: from the checkpoint of the index if there is
 * one that matches the log (checkpoint.h), else by reading the log from its start.
 *
 * The log ends at the first offset without a valid record. If that is at or after the synced offset
 * of the header, the bytes from there on are a torn tail: torn_tail of writes that were under way
 * when the machine or the process died, and that nobody was promised. The tail is cut off. If the
 * log ends before the synced offset, it is damaged: KV_CORRUPT, and nothing is changed.
 *
 * A superseded pointer (record.h) that a later record of its key follows is passed over. One that
 * none follows has lost its content, and is no valid record: the log ends before it, and so before
 * other superseded ones whose followers stand behind that end. Of those nobody was promised any: a
 * content that was is overwritten when what has replaced it is durable (free_extents.h).
 *
 * A log also ends before a transaction of which records are missing: in the log itself (record.h,
 * goes_on), or, where it concerns several files, in another one (whole_transactions.h). Nobody was
 * promised that one either, nor what stands behind it.
 *
 * A killed process never leaves intact records behind the end of the log (boot.h). A power failure
 * may have left some if the machine has been started again since the file was opened for writing:
 * then they are cut off with the torn tail, and kept in a file of their own (torn_tail.h). If it
 * has not been, or if that is not known, the log is damaged.
 */
#ifndef MQKV_KVSTORE_TABLE_RECOVERY_H
#define MQKV_KVSTORE_TABLE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/log/torn_tail.h"
#include "kvstore/table/generation.h"
#include "kvstore/table/transaction_parts.h"

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
    uint64_t settled;  /* set by the caller: transactions up to this number are whole */
    uint64_t read_end; /* the offset without a valid record; the tail, or behind it */
    struct torn_tail torn_tail;
    struct transaction_parts parts; /* of transactions above `settled` */
    uint64_t last_transaction; /* the highest number in the log, as far as it was read; else 0 */
    bool is_cut_short;         /* by recovery_cut */
    uint64_t superseded; /* records in the index that are superseded, and that none has replaced */
    uint64_t superseded_since; /* offset of the first record of a row in which there were some */
    uint64_t lost_at;          /* a superseded pointer there is no valid one; 0: none */
};

/* Adds to the sentence in `error`, which begins with a file's name, the directory `dir` and, if
 * `status` is KV_CORRUPT, the command that saves what is intact. Returns status. `error` may be
 * NULL. */
enum kv_status recovery_explain(const char *dir, enum kv_status status, struct kv_error *error);

/* Fills `generation`, whose log was just opened, and tells in *recovery how; nothing is changed on
 * disk. `dir` is for the sentences. The records of a transaction at the end of the log whose last
 * one is missing are left out. */
enum kv_status recovery_read(struct generation *generation, int dir_fd, const char *dir,
                             struct recovery *recovery, struct kv_error *error);

/* After recovery_read: fills the generation anew, from what the log has before `end`, the beginning
 * of a part, or a little before (superseded pointers). */
enum kv_status recovery_cut(struct generation *generation, const char *dir, uint64_t end,
                            struct recovery *recovery, struct kv_error *error);

/* Then: makes a log that is open for writing writable from its end on. A log that was read is
 * synced afterwards, and its checkpoint does not match any more. A log that is not writable is
 * left as it is, with its torn tail. */
enum kv_status recovery_finish(struct generation *generation, int dir_fd, const char *dir,
                               struct recovery *recovery, struct kv_error *error);

/* Frees what recovery_read has allocated. */
void recovery_end(struct recovery *recovery);

#endif
