/*
 * migration: what the files of `migrate` share: both stores, what has been moved, and what is to be
 * reported. The source is scanned again and again; what changed since is written to the target, on
 * condition that nobody else has changed it there.
 */
#ifndef MQKV_CLIENTK_PROGRAM_TRANSFER_MIGRATION_H
#define MQKV_CLIENTK_PROGRAM_TRANSFER_MIGRATION_H

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/progress.h"
#include "clientk/program/transfer/moved_keys.h"

#define MOVE_PAGE_ENTRIES 256u /* that are moved together: move_page */

struct migration {
    struct cli_context *context; /* connected to the source, which it scans */
    struct cli_context target_context;
    struct clientk *source; /* the same server, for questions while a scan is under way */
    struct clientk *target;
    bool keeps_versions; /* new entries get at the target the versions that they have */
    bool overwrites;     /* entries that the target had before may be replaced */
    bool removes;        /* those whose keys the source does not have may be deleted */
    bool verifies;       /* in this pass every entry is compared */

    struct moved_keys keys;
    uint32_t pass;
    uint64_t seen;    /* entries of the source in this pass */
    uint64_t changes; /* entries written or deleted in this pass */
    struct progress progress;

    /* in all */
    uint64_t written, deleted;
    uint64_t renumbered; /* of those written, with another version */
    uint64_t left_out;   /* records of the source that cannot be read */
    uint64_t refused, differing;
    unsigned refused_in_a_row; /* for want of room, since the target had or took another entry */

    enum kv_status stopped; /* not KV_OK: nothing more is done */
    char why[256];
};

/* Keys reported one by one, of each kind. */
#define MIGRATION_TOLD 10u

/* Nothing more is done, for that reason; the first one counts. */
void migration_stop(struct migration *migration, enum kv_status status, const char *why);

/* Whether to go on: nothing has stopped it, no Ctrl-C either. */
bool migration_goes_on(const struct migration *migration);

/* Waits out an overload, longer each time: true if the operation is to be sent again. False: the
 * status is another one, or it has waited so often, or nothing more is done. *waits: 0 at first. */
#define MIGRATION_WAITS 8u /* 13 s together */
bool migration_sits_out(const struct migration *migration, enum kv_status status, unsigned *waits);

/* The target does not take the entry, and will not take it later. */
void migration_refuse(struct migration *migration, const struct clientk_entry *entry,
                      enum kv_status status, const char *sentence);

/* After the last write: the stores differ in that key. */
void migration_tell_difference(struct migration *migration, struct kv_slice key, const char *how);

/* The put that brings the entry to the target, where the key must have the version `expected`; 0:
 * must be absent. Slices of the entry are kept. */
struct clientk_operation migration_put(const struct migration *migration,
                                       const struct clientk_entry *entry, uint64_t expected);

/* The source's entry is at the target, with that version there. */
void migration_note_moved(struct migration *migration, const struct clientk_entry *entry,
                          uint64_t target_version);

/* The same, by a write just done. */
void migration_note_written(struct migration *migration, const struct clientk_entry *entry,
                            uint64_t target_version);

#endif
