/*
 * evict: makes room where live records have more bytes than the store's bound.
 *
 * Threads: any, no lock of a file held.
 */
#ifndef MQKV_KVSTORE_API_EVICT_H
#define MQKV_KVSTORE_API_EVICT_H

#include "kvstore/api/store.h"

/* Evicts entries, of the data file first, then of the others, until the bound holds, there is
 * nothing to evict, or `most` entries have gone. */
void evict(struct kvstore *store, uint32_t file, uint64_t most);

/* Gives the store's files the bound that its options ask for, and makes it hold. */
enum kv_status evict_begin(struct kvstore *store, struct kv_error *error);

#endif
