/*
 * operations: the steps that the calls which write one key have in common: find the data file, lock
 * it, look the key up, check the condition, append (write_append).
 */
#ifndef MQKV_KVSTORE_API_OPERATIONS_H
#define MQKV_KVSTORE_API_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/text/parse.h"
#include "kvstore/api/write_append.h"
#include "kvstore/table/placing.h"

/* Locks the file of `key` for writing and looks the key up into *write. KV_OK: the lock is held
 * until write_end, which returns the status that is passed to it. Otherwise (KV_BAD_KEY,
 * KV_READ_ONLY, KV_CORRUPT, KV_IO) no lock is held. `blind`: the entry that is there does not
 * matter, even if it is damaged. */
enum kv_status write_begin(struct kvstore *store, struct kv_slice key, bool blind,
                           struct write *write);
enum kv_status write_end(struct write *write, enum kv_status status);

/* What write_begin does under the lock, which the caller holds: looks `key` up, which is a valid
 * one, into *write. For a read the file may take no writes: `reads` leaves that out, and the lock
 * may be held for reading. KV_OK, KV_READ_ONLY, KV_CORRUPT, KV_IO. */
enum kv_status write_find(struct kvstore *store, struct kv_slice key, bool blind, bool reads,
                          struct write *write);

/* Whether the result of the lookup can be relied on: KV_OK, KV_CORRUPT, KV_IO. Holds: the file's
 * lock. */
enum kv_status write_verify(struct write *write);

/* Give write->record what kvstore_add, kvstore_append and kvstore_touch write: the sum, which is
 * put into `text`, and *sum as kvstore_add tells it (KV_OUT_OF_BOUNDS, KV_NOT_A_NUMBER,
 * KV_NOT_FOUND); the value and expiry of the entry that is there. */
enum kv_status write_prepare_sum(struct write *write, int64_t delta,
                                 const struct kvstore_add_options *options,
                                 char text[INTEGER_BYTES], int64_t *sum);
void write_keep_entry(struct write *write);

/* Makes room where a write to `file` has taken the store above its bound. Holds no lock. */
void write_evict(struct kvstore *store, uint32_t file);

/* How many times a call that finds no room is tried, at most. */
#define WRITE_TRIES 8u

/* After a call for `key` ended with `status`. KV_NO_SPACE: makes room by eviction and compaction,
 * where the store evicts, and waits for that. KV_FULL: evicts what others have written above the
 * bound. True: the call may begin again. *tries counts the tries, from 0. The caller holds no lock.
 */
bool write_may_repeat(struct kvstore *store, struct kv_slice key, enum kv_status status,
                      unsigned *tries);

/* A write of a value of PLACE_MIN_BYTES or more, or in the place of one. */
struct apart_write {
    enum apart_kind { APART_PUT, APART_EXCHANGE, APART_APPEND, APART_TOUCH } kind;
    struct kv_slice value;                     /* of an append what is appended, of a touch none */
    const struct kvstore_put_options *options; /* of a put, an exchange; give no version, which a
                                                  place in the log would spoil */
    uint64_t expiry_ms;                        /* of a touch */
    kvstore_place place;                       /* these four of an exchange */
    void *context;
    bool *found;
    struct kvstore_entry *entry;
    uint32_t *value_bytes; /* of an append */
};

/* On which terms a value may be placed in `file` now. */
struct placing_terms write_placing_terms(const struct kvstore *store, const struct datafile *file);

/* Does as kvstore_put, kvstore_exchange_to, kvstore_append or kvstore_touch, but copies old and new
 * value without the lock (placing.h). KV_BUSY: nothing was written, and the caller holds the lock
 * for the copies. */
enum kv_status write_apart(struct kvstore *store, struct kv_slice key,
                           const struct apart_write *asked, struct kvstore_written *written);

/* Whether the condition of a put holds: KV_OK, KV_EXISTS, KV_NOT_FOUND, KV_VERSION_MISMATCH; or the
 * options are no valid ones: KV_UNSUPPORTED, KV_USAGE, KV_BAD_REQUEST. */
enum kv_status write_check(const struct write *write, const struct kvstore_put_options *options);

/* The expiry that a put with `options` gives the entry. */
uint64_t write_expiry(const struct write *write, const struct kvstore_put_options *options);

#endif
