/*
 * write_append: the last step of a call that writes one key: the cache forgets the key, the key's
 * record is appended, and the sync threads, the sweeper and the compactor are told.
 *
 * Threads: any; the caller holds the file's lock for writing.
 */
#ifndef MQKV_KVSTORE_API_WRITE_APPEND_H
#define MQKV_KVSTORE_API_WRITE_APPEND_H

#include <stdbool.h>

#include "kvstore/api/store.h"

/* A write of one key, which was looked up. The lock of its file is held. */
struct write {
    struct kvstore *store;
    struct datafile *file;
    struct lookup lookup;
    bool live;            /* there is an entry that has not expired; unless the write is blind, its
                             record has been verified */
    struct record record; /* to be appended: a put of the key, without a value or an expiry yet */
};

/* Appends write->record, whose value continues in value_tail. *written tells version and ticket;
 * `written` may be NULL. KV_VALUE_TOO_BIG, KV_NO_SPACE ... */
enum kv_status write_append(struct write *write, struct kv_slice value_tail,
                            struct kvstore_written *written);

/* Tells the sync threads, the sweeper, the compactor and followers of `record`, which was appended
 * to `file`. write_append does, except while changes of a transaction are being made, which may be
 * taken back. */
void write_announce(struct kvstore *store, struct datafile *file, const struct record *record);

/* Says in the log, once a minute, that a write to `file` was refused with KV_NO_SPACE. */
void write_tell_no_space(struct kvstore *store, uint32_t file);

#endif
