/*
 * operations: the steps that the calls which write one key have in common: find the data file, lock
 * it, look the key up, check the condition, append (write_append).
 */
#ifndef MQKV_KVSTORE_API_OPERATIONS_H
#define MQKV_KVSTORE_API_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/api/write_append.h"

/* Locks the file of `key` for writing and looks the key up into *write. KV_OK: the lock is held
 * until write_end, which returns the status that is passed to it. Otherwise (KV_BAD_KEY,
 * KV_READ_ONLY, KV_CORRUPT, KV_IO) no lock is held. `blind`: the entry that is there does not
 * matter, even if it is damaged. */
enum kv_status write_begin(struct kvstore *store, struct kv_slice key, bool blind,
                           struct write *write);
enum kv_status write_end(struct write *write, enum kv_status status);

/* How many times a call that finds no room is tried, at most. */
#define WRITE_TRIES 8u

/* After a call for `key` ended with KV_NO_SPACE: makes room by eviction and compaction, where the
 * store evicts, and waits for that. True: the call may begin again. *tries counts the tries, from
 * 0. The caller holds no lock. */
bool write_may_repeat(struct kvstore *store, struct kv_slice key, unsigned *tries);

/* Whether the condition of a put holds: KV_OK, KV_EXISTS, KV_NOT_FOUND, KV_VERSION_MISMATCH; or the
 * options are no valid ones: KV_UNSUPPORTED, KV_USAGE, KV_BAD_REQUEST. */
enum kv_status write_check(const struct write *write, const struct kvstore_put_options *options);

/* The expiry that a put with `options` gives the entry. */
uint64_t write_expiry(const struct write *write, const struct kvstore_put_options *options);

#endif
