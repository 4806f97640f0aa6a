/*
 * commit_replay: brings the bytes that a commit log (commit_log.h) has of data files into these
 * before they are read: a power failure may have kept the bytes from the data files, though the
 * commit's sync had returned.
 *
 * Threads: applying a replay does not change it, so that any number of threads may apply one, each
 * to another file.
 */
#ifndef MQKV_KVSTORE_LOG_COMMIT_REPLAY_H
#define MQKV_KVSTORE_LOG_COMMIT_REPLAY_H

#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/log/logfile.h"

struct commit_replay {
    uint8_t *bytes; /* of the log; NULL: there is no log, or the log has nothing */
    uint64_t size;
    uint64_t epoch;
};

/* Reads the commit log in the directory of `dir_fd` into *replay. KV_OK, also if there is no log,
 * or one of another store than that of `store_seed`; KV_IO, KV_NO_MEMORY, ...: what the log may
 * have cannot be known. */
enum kv_status commit_replay_load(struct commit_replay *replay, int dir_fd, uint64_t store_seed,
                                  struct kv_error *error);
void commit_replay_free(struct commit_replay *replay);

/* Brings what belongs to `log`, which was just opened, into it: if the log is open for writing,
 * into its file, and onto the disk; if not, into its mapping alone, which it must have. */
enum kv_status commit_replay_apply(const struct commit_replay *replay, struct logfile *log,
                                   struct kv_error *error);

/* Brings what belongs to data file `number` with the salt `salt` into `map`, a private read-only
 * mapping of `size` bytes. 0, or -1 and errno. */
int commit_replay_patch(const struct commit_replay *replay, uint32_t number, uint64_t salt,
                        uint8_t *map, uint64_t size);

#endif
