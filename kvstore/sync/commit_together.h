/*
 * commit_together: one sync for several data files. Where more than one file waits for its sync,
 * the bytes that were appended to them since their last syncs go into the commit log
 * (log/commit_log.h), whose sync counts for all of them. A file itself is synced when the sync
 * interval has passed, when the log is full, when much was appended to the file or it has grown,
 * and when a writer waits for its sync in his own thread.
 *
 * A failed sync of the log is a failed sync of each file in it: these files take no more writes,
 * and the log is not used any more.
 */
#ifndef MQKV_KVSTORE_SYNC_COMMIT_TOGETHER_H
#define MQKV_KVSTORE_SYNC_COMMIT_TOGETHER_H

#include <stdbool.h>

struct sync;

/* Commits the files in the ready queue, up to 64 of them. False: nothing was done, since no log can
 * be used or another thread commits. Holds: mutex, released meanwhile. */
bool commit_together(struct sync *sync);

#endif
