/*
 * write_append: the last step of a call that writes one key: let the cache forget the
 * key, append its record, and tell what else has to know of it: the sync threads, the sweeper, the
 * compactor.
 *
 * Threads: any; the functions hold the file's lock for writing.
 */
#ifndef MQKV_KVSTORE_API_WRITE_APPEND_H
#define MQKV_KVSTORE_API_WRITE_APPEND_H

#include <stdbool.h>

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

/* Appends write->record, its value continued in value_tail: KV_VALUE_TOO_BIG, KV_NO_SPACE ... */
enum kv_status write_append(struct write *write, struct kv_slice value_tail,
                            struct kvstore_written *written);

/* A write was refused with KV_NO_SPACE: says so to the operator, once a minute; writers get the
 * status each time. */
void write_tell_no_space(struct kvstore *store, uint32_t file);

#endif
