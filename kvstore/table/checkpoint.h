/*
 * checkpoint: the index of a data file as it was at a clean close, so that the next open need not
 * read the log. A checkpoint counts only if it matches its log exactly: one of an older log, one of
 * another file, or a damaged one is ignored. Integers are little-endian:
 *
 *   offset size field
 *        0    8 magic "mqkvindx"
 *        8    4 format version of checkpoints: 2
 *       12    4 number of the data file
 *       16    8 salt of the log
 *       24    8 tail of the log
 *       32    8 max_version
 *       40    8 live_bytes
 *       48    8 expiring_keys
 *       56    8 reserve_bytes
 *       64    8 number of keys
 *       72    8 check of the hash key: keyhash of the magic
 *       80    . runs, each: 4 number of items (1 or more), 8 lower bound of their expiry times
 *               (2^64 - 1: none expires), and the items in ascending order of hash: 4 hash,
 *               4 offset of the record / 8
 *        .    8 checksum: XXH3_64 over all before, seeded with the salt
 */
#ifndef MQKV_KVSTORE_TABLE_CHECKPOINT_H
#define MQKV_KVSTORE_TABLE_CHECKPOINT_H

#include <stdbool.h>

#include "mqkv/error.h"
#include "kvstore/table/generation.h"

/* Writes the checkpoint of `generation` to data.NNNN.index, in place of a file that is there, and
 * syncs the file; the directory is still to be synced. The log has been synced up to its tail.
 * Fails with a sentence in `error`. */
enum kv_status checkpoint_write(const struct generation *generation, int dir_fd,
                                struct kv_error *error);

/* Fills `generation`, whose log was just opened and whose index is empty: index, sums and the log's
 * tail. False: there is no checkpoint that matches; nothing has changed, except that the index may
 * have keys. */
bool checkpoint_load(struct generation *generation, int dir_fd);

#endif
