/*
 * evict: makes room where live records have more bytes than the store's bound.
 *
 * Threads: any, no lock of a file held.
 */
#ifndef MQKV_KVSTORE_API_EVICT_H
#define MQKV_KVSTORE_API_EVICT_H

#include <stdbool.h>

#include "kvstore/api/store.h"

/* Evicts entries, of the data file first, then of the others, until the bound holds, there is
 * nothing to evict, or `most` entries have gone. */
void evict_entries(struct kvstore *store, uint32_t file, uint64_t most);

/* A write to the data file found no room. Evicts what the disk has no room for, and has the file
 * compacted whose compaction gives back most, of those that the disk has room for; if there is
 * none, evicts of the file until it is one. Waits. True: there is more room than before. False also
 * for some time after that could not be done, so that writers do not wait in vain each time. */
bool evict_for_room(struct kvstore *store, uint32_t file);

/* Gives the store's files the bound that its options ask for, and makes it hold. */
enum kv_status evict_begin(struct kvstore *store, struct kv_error *error);

#endif
