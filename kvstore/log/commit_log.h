/*
 * commit_log: one file beside the data files. The bytes that were appended to several data files
 * also go into the commit log, so that one sync makes all of them durable instead of one sync for
 * each file. The kernel writes the same bytes to the data files when it likes, and these are synced
 * before the log begins anew; what a crash has kept from them is brought in from the log
 * (commit_replay.h). The file has its size and its blocks from the start, so that its sync has
 * nothing to note in the file system.
 *
 * Threads: none of its own; one thread at a time uses a commit log.
 */
#ifndef MQKV_KVSTORE_LOG_COMMIT_LOG_H
#define MQKV_KVSTORE_LOG_COMMIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/log/logfile.h"

struct commit_log;

/* Makes the file in the directory of `dir_fd`, in place of one that is there, and its name durable:
 * some milliseconds. NULL and errno: the file cannot be made, and none is left. */
struct commit_log *commit_log_create(int dir_fd, uint64_t store_seed);

/* Closes the file, which stays. NULL is harmless. */
void commit_log_free(struct commit_log *log);

/* Returns true if there is room for one commit; if not, the log must begin anew
 * (commit_log_restart). */
bool commit_log_has_room(const struct commit_log *log);

/* Adds `size` bytes of the data file `file`, from `offset` on, to the next commit. False: there is
 * no room for them, or they cannot be read. */
bool commit_log_add(struct commit_log *log, const struct logfile *file, uint64_t offset,
                    uint64_t size);

/* The two steps of a commit: writes what was added; syncs what was written. 0, or -1 and errno:
 * then what was added is not durable, and the log is of no further use. */
int commit_log_write(struct commit_log *log);
int commit_log_sync(struct commit_log *log);

/* Begins the log anew. All that was committed is durable in the data files. */
void commit_log_restart(struct commit_log *log);

#endif
