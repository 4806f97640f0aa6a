/*
 * running_store: what kvcheck --online must know of a store that a daemon uses: where the logs end
 * now, and whether a data file that was read is still the one in use. It takes no lock and changes
 * nothing; it reads the shared memory of the daemon if it may (shared_store.h).
 */
#ifndef MQKV_KVSTORE_KVCHECK_RUNNING_STORE_H
#define MQKV_KVSTORE_KVCHECK_RUNNING_STORE_H

#include <stdbool.h>

#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/source.h"
#include "kvstore/shared/shared_store.h"

struct running_store {
    int dir_fd;
    const struct shared_store *shared; /* NULL: it is missing, or this user may not read it */
    int shared_fd;                     /* with it */
    size_t shared_bytes;               /* size of the mapping */
    uint32_t datafiles;
};

/* Always succeeds: if the shared memory cannot be read, the ends of logs are found by their
 * records. */
void running_store_open(struct running_store *live, int dir_fd, const struct layout *layout);
void running_store_close(struct running_store *live);

/* Maps what the shared memory, which there is, has grown by; slices of the mapping before are then
 * of no use. */
void running_store_grow(struct running_store *live);

/* Bounds a file that was just opened to its log as it is now: whatever is in it must be intact.
 * Maps what the file has grown by since, if its end lies there. Returns true if it was bounded;
 * where the end is not known, it is not. */
bool running_store_bound(const struct running_store *live, struct source *source);

/* Waits longer than any single write takes. */
void running_store_settle(void);

/* For a file that was not bounded: returns true if the gap that the survey has found at `offset`,
 * with records behind it, lasts. A gap that a write under way has left does not. Waits a moment. */
bool running_store_gap_stays(const struct source *source, uint64_t offset);

/* Returns true if the daemon that writes to the file has overwritten the content of the superseded
 * pointer (record.h) at `offset`, since what has replaced it stands behind the end of what is read.
 * One that seems to be damaged is to be looked at once more after running_store_settle. */
bool running_store_overwrites(const struct source *source, uint64_t offset);

/* Returns true if a compaction has replaced the file since it was opened: then what was read of it
 * counts for nothing. */
bool running_store_was_replaced(const struct running_store *live, const struct source *source);

#endif
