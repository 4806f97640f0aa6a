/*
 * commit_together: one sync for several data files. Where more than one waits for its sync, what
 * was appended to them since their last goes into the commit log (log/commit_log.h), and the sync
 * of that counts for all of them. The files themselves are synced when the sync interval has
 * passed, when the log is full, and where there is much to write or a file has grown; syncs that
 * somebody waits for in his own thread go to the file as ever.
 *
 * A failed sync of the log is one of each file that was to be in it: these take no more writes, and
 * the log is not used any more.
 */
#ifndef MQKV_KVSTORE_SYNC_COMMIT_TOGETHER_H
#define MQKV_KVSTORE_SYNC_COMMIT_TOGETHER_H

#include <stdbool.h>

struct sync;

/* Commits what is in the ready queue. False: nothing was done, it is for others. Holds: mutex,
 * released meanwhile. */
bool commit_together(struct sync *sync);

#endif
