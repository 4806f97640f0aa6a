/*
 * operations: what the calls that write one key have in common: find the place, lock, look up,
 * check the condition, append, tell the background threads.
 */
#ifndef MQKV_KVSTORE_API_OPERATIONS_H
#define MQKV_KVSTORE_API_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/api/store.h"

/* A key that was looked up for writing, its file's lock held. */
struct write {
    struct kvstore *store;
    struct datafile *file;
    struct lookup lookup;
    bool live;            /* there is an entry, and it has not expired; unless the write is blind,
                             it has been verified */
    struct record record; /* to be appended: a put of the key, without a value or an expiry yet */
};

/* KV_OK: the lock is held until write_end, which gives back the status it is given. Otherwise
 * (KV_BAD_KEY, KV_READ_ONLY, KV_CORRUPT, KV_IO) nothing is held. blind: what was there does not
 * matter, even if it is damaged. */
enum kv_status write_begin(struct kvstore *store, struct kv_slice key, bool blind,
                           struct write *write);
enum kv_status write_end(struct write *write, enum kv_status status);

/* Appends write->record, its value continued in value_tail: KV_VALUE_TOO_BIG, KV_NO_SPACE ... */
enum kv_status write_append(struct write *write, struct kv_slice value_tail,
                            struct kvstore_written *written);

/* Does the condition of a put hold? KV_OK, KV_EXISTS, KV_NOT_FOUND, KV_VERSION_MISMATCH. */
enum kv_status write_check(const struct write *write, const struct kvstore_put_options *options);

/* The expiry that a put gives the entry. */
uint64_t write_expiry(const struct write *write, const struct kvstore_put_options *options);

#endif
