/*
 * commit_replay: what a commit log (commit_log.h) knows of data files, brought in before they are
 * read: a power failure may have kept it from them, though its sync had returned.
 *
 * Threads: applying changes nothing of the replay, so that any number may do it, each to another
 * file.
 */
#ifndef MQKV_KVSTORE_LOG_COMMIT_REPLAY_H
#define MQKV_KVSTORE_LOG_COMMIT_REPLAY_H

#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/log/logfile.h"

struct commit_replay {
    uint8_t *bytes; /* of the log; NULL: there is none, or it has nothing */
    uint64_t size;
    uint64_t epoch;
};

/* KV_OK, also if there is none, or another store's; KV_IO, KV_NO_MEMORY, ...: what it may have
 * cannot be known. */
enum kv_status commit_replay_load(struct commit_replay *replay, int dir_fd, uint64_t store_seed,
                                  struct kv_error *error);
void commit_replay_free(struct commit_replay *replay);

/* Brings in what belongs to the file, which was just opened; of one that is open for writing it is
 * on disk afterwards. One that is not keeps its content, but its mapping has it: it must have
 * one. */
enum kv_status commit_replay_apply(const struct commit_replay *replay, struct logfile *log,
                                   struct kv_error *error);

/* The same for a private read-only mapping of `size` bytes. 0, or -1 and errno. */
int commit_replay_patch(const struct commit_replay *replay, uint32_t number, uint64_t salt,
                        uint8_t *map, uint64_t size);

#endif
