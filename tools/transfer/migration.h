/*
 * migration: what the files of `migrate` share: both stores, what has been moved, and what is to be
 * reported. The source is scanned again and again; what changed since is written to the target, on
 * condition that nobody else has changed it there.
 */
#ifndef MQKV_TOOLS_TRANSFER_MIGRATION_H
#define MQKV_TOOLS_TRANSFER_MIGRATION_H

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/progress.h"
#include "tools/transfer/moved_keys.h"

#define MOVE_PAGE_ENTRIES 256u /* entries that are moved together: move_page */

struct migration {
    struct cli_context *context; /* connected to the source, which it scans */
    struct cli_context target_context;
    struct clientk
        *source; /* a second connection to the source, for reads while a scan is under way */
    struct clientk *target;
    bool keeps_versions; /* new entries get the same versions at the target */
    bool overwrites;     /* entries that the target had before may be replaced */
    bool removes;        /* entries whose keys the source does not have may be deleted */
    bool verifies;       /* in this pass every entry is compared */

    struct moved_keys keys;
    uint32_t pass;
    uint64_t seen;    /* entries of the source in this pass */
    uint64_t changes; /* entries written or deleted in this pass */
    struct progress progress;

    /* in the whole migration */
    uint64_t written, deleted;
    uint64_t renumbered; /* those of the written entries that got another version */
    uint64_t left_out;   /* records of the source that cannot be read */
    uint64_t refused, differing;
    unsigned refused_in_a_row; /* entries in a row that the target refused for lack of space */

    enum kv_status stopped; /* if not KV_OK: nothing more is done */
    char why[256];
};

/* The number of keys of each kind that are reported one by one. */
#define MIGRATION_TOLD 10u

/* Stops the migration for this reason; the first one counts. */
void migration_stop(struct migration *migration, enum kv_status status, const char *why);

/* Returns true if nothing has stopped the migration, Ctrl-C neither. */
bool migration_goes_on(const struct migration *migration);

/* Waits after an overload, longer each time. True: the caller sends the operation again. False: the
 * status is another one, or it was waited for MIGRATION_WAITS times, or the migration is stopped.
 * *waits: 0 at first. */
#define MIGRATION_WAITS 8u /* 13 s together */
bool migration_sits_out(const struct migration *migration, enum kv_status status, unsigned *waits);

/* Notes that the target does not take the entry, and will not take it later. */
void migration_refuse(struct migration *migration, const struct clientk_entry *entry,
                      enum kv_status status, const char *sentence);

/* Reports, after the last write, that the stores differ in that key. */
void migration_tell_difference(struct migration *migration, struct kv_slice key, const char *how);

/* Returns the put that brings the entry to the target, where the key must have the version
 * `expected` (0: must be absent). It borrows from the entry. */
struct clientk_operation migration_put(const struct migration *migration,
                                       const struct clientk_entry *entry, uint64_t expected);

/* Notes that the source's entry is at the target, with that version there. */
void migration_note_moved(struct migration *migration, const struct clientk_entry *entry,
                          uint64_t target_version);

/* Notes the same of an entry that was just written. */
void migration_note_written(struct migration *migration, const struct clientk_entry *entry,
                            uint64_t target_version);

#endif
