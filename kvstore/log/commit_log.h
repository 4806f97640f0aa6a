/*
 * commit_log: one file beside the data files, into which goes what was appended to several of them,
 * so that one sync makes all of it durable instead of one sync for each. The data files get the
 * same bytes as ever, from the kernel, when it likes, and are synced before the log begins anew:
 * what a crash has kept from them is brought in from here (commit_replay.h). The file has its size
 * and its blocks from the start, so that its sync has nothing to note in the file system.
 *
 * Threads: none of its own; one at a time may use it.
 */
#ifndef MQKV_KVSTORE_LOG_COMMIT_LOG_H
#define MQKV_KVSTORE_LOG_COMMIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/log/logfile.h"

struct commit_log;

/* Makes the file, in place of one that is there, and its name durable: some milliseconds. NULL and
 * errno: it cannot be had, and none is left. */
struct commit_log *commit_log_create(int dir_fd, uint64_t store_seed);

/* Closes the file, which stays. NULL is harmless. */
void commit_log_free(struct commit_log *log);

/* Is there room for what one commit may have? Else it is to begin anew. */
bool commit_log_has_room(const struct commit_log *log);

/* Adds `size` bytes of a data file to what is committed next. False: there is no room for them, or
 * they cannot be read. */
bool commit_log_add(struct commit_log *log, const struct logfile *file, uint64_t offset,
                    uint64_t size);

/* Writes what was added, and then syncs it: 0, or -1 and errno: then what was added is not durable,
 * and the log is of no further use. */
int commit_log_write(struct commit_log *log);
int commit_log_sync(struct commit_log *log);

/* Begins anew: all that was committed is durable in the data files. */
void commit_log_restart(struct commit_log *log);

#endif
