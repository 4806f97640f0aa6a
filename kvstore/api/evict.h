/*
 * evict: evicts entries where live records have more bytes than the store's bound.
 *
 * Threads: any, which hold no lock of a file.
 */
#ifndef MQKV_KVSTORE_API_EVICT_H
#define MQKV_KVSTORE_API_EVICT_H

#include <stdbool.h>

#include "kvstore/api/store.h"

/* Evicts entries, of data file `file` first, then of the others, until the bound holds, there is
 * nothing to evict, or `most` entries have gone. */
void evict_entries(struct kvstore *store, uint32_t file, uint64_t most);

/* After a write to data file `file` found no room: evicts what the disk has no room for, has that
 * file compacted whose compaction gives back most, among those whose copy fits on the disk, and
 * waits for that. If there is no such file, evicts entries of `file` until it is one. True: there
 * is more room than before. False also for some time after a failure, so that writers do not wait
 * in vain each time. */
bool evict_for_room(struct kvstore *store, uint32_t file);

/* Gives the store's files the bound that the options ask for, and evicts entries until it holds.
 * Fails with a sentence in `error`. */
enum kv_status evict_begin(struct kvstore *store, struct kv_error *error);

#endif
