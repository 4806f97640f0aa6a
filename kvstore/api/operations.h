/*
 * operations: what the calls that write one key have in common: find the place, lock, look up,
 * check the condition, append (write_append).
 */
#ifndef MQKV_KVSTORE_API_OPERATIONS_H
#define MQKV_KVSTORE_API_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/api/write_append.h"

/* KV_OK: the lock is held until write_end, which gives back the status it is given. Otherwise
 * (KV_BAD_KEY, KV_READ_ONLY, KV_CORRUPT, KV_IO) nothing is held. blind: what was there does not
 * matter, even if it is damaged. */
enum kv_status write_begin(struct kvstore *store, struct kv_slice key, bool blind,
                           struct write *write);
enum kv_status write_end(struct write *write, enum kv_status status);

/* How often a call begins again, at most. */
#define WRITE_TRIES 8u

/* A call that ended with KV_NO_SPACE: makes room by eviction and compaction, where the store
 * evicts, and waits for it. True: the call may begin again. *tries: 0 at first. No lock is held. */
bool write_may_repeat(struct kvstore *store, struct kv_slice key, unsigned *tries);

/* Does the condition of a put hold? KV_OK, KV_EXISTS, KV_NOT_FOUND, KV_VERSION_MISMATCH. */
enum kv_status write_check(const struct write *write, const struct kvstore_put_options *options);

/* The expiry that a put gives the entry. */
uint64_t write_expiry(const struct write *write, const struct kvstore_put_options *options);

#endif
