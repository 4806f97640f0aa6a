/*
 * key_source: where the keys of a key tree are, which has only hashes: the index of the data file's
 * generation in use finds the records of a hash, and the log has them.
 *
 * Threads: the caller holds the file's lock. Without a mapping, keys lie in a read buffer of the
 * thread, as the caller names it.
 */
#ifndef MQKV_KVSTORE_ORDER_KEY_SOURCE_H
#define MQKV_KVSTORE_ORDER_KEY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index/index.h"
#include "kvstore/log/logfile.h"
#include "kvstore/shared/key_point.h"

struct key_source {
    const struct index *index;
    const struct logfile *log;
};

/* The key of the record at `offset`, in `buffer` if the log is not mapped. False: it cannot be
 * read, or it is damaged: it has another hash than `hash`, under which the index has it. */
bool key_source_read(const struct key_source *source, enum read_buffer buffer, uint32_t hash,
                     uint64_t offset, struct kv_slice *key);

/* Asks for the memory of the records of each `step`th of the `count` hashes; waits for that of the
 * index alone. */
void key_source_prefetch(const struct key_source *source, const uint32_t *hashes, uint32_t count,
                         uint32_t step);

/* Gives the key with `hash` that `rank` others with that hash, within `bounds`, are before, and the
 * offset of its record. `except` is left out, as a key that the index has and the tree not yet (an
 * empty slice: none). False: there is none that can be read; *offset is then that of a damaged
 * record with the hash, or 0. */
bool key_source_find(const struct key_source *source, enum read_buffer buffer, uint32_t hash,
                     const struct key_bounds *bounds, uint32_t rank, struct kv_slice except,
                     struct kv_slice *key, uint64_t *offset);

/* How many keys with `hash` within `bounds`, other than `key`, there are, and how many of these are
 * before `key`. */
struct key_others {
    uint32_t count;
    uint32_t before;
};
struct key_others key_source_others(const struct key_source *source, uint32_t hash,
                                    const struct key_bounds *bounds, struct kv_slice key);

#endif
