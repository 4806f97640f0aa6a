/*
 * record: one entry of a data file's log, as bytes. docs/FORMAT.md is the contract with other
 * programs; this is the one place that builds and parses it.
 *
 *   offset size field (little-endian)
 *        0    4 checksum: low 32 bits of XXH3_64 over bytes 4 .. end of value, seeded with
 *                         salt ^ offset of the record in its file
 *        4    4 value_bytes
 *        8    8 version
 *       16    2 key_bytes
 *       18    1 kind: 1 put, 2 delete
 *       19    1 flags: bit 0: an expiry follows
 *                      bit 1: the next record is of the same transaction as this one
 *                      bit 2: a part follows: the part of a transaction of several files ends here
 *       20    8 expiry_ms, only with flag 0
 *        .   16 part, only with flag 2: 8 number of the transaction, 4 number of the data file that
 *               has the next part (after the last one the first), 4 how many parts there are
 *        .    . key, value, zero bytes up to a multiple of 8
 *
 * A record is valid if its checksum holds, its kind and flags are known, key_bytes and version are
 * not 0, the version is below 2^63, value_bytes of a deletion and the padding are 0, an expiry that
 * follows is not 0, nor is the number of a transaction, flags 1 and 2 are not both set, and it ends
 * within the file. Records with flag 1 count together with the next one, and with a part together
 * with the other files' parts, or not at all (recovery.h); files with such records have format 2.
 * A log position whose first RECORD_HEADER_BYTES are all zero is its end. Seeding with salt and
 * offset makes a record valid only in its own file and place: remains of an older file or of a cut
 * tail never look like records.
 */
#ifndef MQKV_KVSTORE_FORMAT_RECORD_H
#define MQKV_KVSTORE_FORMAT_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/time/clock.h"
#include "common/memory/copy.h"
#include "mqkv/kvstore.h"
#include "mqkv/slice.h"

#define RECORD_HEADER_BYTES     20u
#define RECORD_MAX_HEADER_BYTES 44u /* with an expiry and a part */
#define RECORD_ALIGNMENT        8u

/* Versions are below this: far beyond what a store reaches, low enough that adding to a version
 * never overflows. */
#define RECORD_VERSION_LIMIT (UINT64_C(1) << 63)

enum record_kind { RECORD_PUT = 1, RECORD_DELETE = 2 };

/* A parsed record. Its slices borrow their bytes. */
struct record {
    enum record_kind kind;
    uint64_t version;
    uint64_t expiry_ms; /* 0: none */
    struct kv_slice key;
    struct kv_slice value;
    bool goes_on;         /* the next record is of the same transaction */
    uint32_t next_file;   /* that has the next part of the transaction */
    uint32_t parts;       /* how many it has; this and next_file only with a transaction */
    uint64_t transaction; /* whose part ends here; 0: none */
};

enum record_verdict {
    RECORD_VALID,
    RECORD_END,       /* zeros: nothing was ever written here */
    RECORD_INVALID,   /* neither a record nor zeros */
    RECORD_UNREADABLE /* returned by logfile.h only: the bytes could not be read; errno */
};

/* Returns true if `record` has expired at now_ms, of clock_realtime_ms. */
static inline bool record_has_expired(const struct record *record, uint64_t now_ms)
{
    return record->expiry_ms != 0 && record->expiry_ms <= now_ms;
}

/* Returns true if `record` has not expired. Reads the clock only if the record has an expiry. */
static inline bool record_is_live(const struct record *record)
{
    return record->expiry_ms == 0 || !record_has_expired(record, clock_realtime_ms());
}

/* Sets *entry to what a read tells about `record` beside its value. `entry` may be NULL. */
static inline void record_describe(const struct record *record, struct kvstore_entry *entry)
{
    if (!entry)
        return;
    entry->version = record->version;
    entry->expiry_ms = record->expiry_ms;
    entry->value_bytes = (uint32_t)record->value.size;
}

/* Describes `record` in *entry and copies its value to where place(context, size) says. KV_OK, or
 * KV_BUFFER_TOO_SMALL if that is nowhere. */
static inline enum kv_status record_give(const struct record *record, kvstore_place place,
                                         void *context, struct kvstore_entry *entry)
{
    record_describe(record, entry);
    void *at = place(context, record->value.size);
    if (!at)
        return KV_BUFFER_TOO_SMALL;
    copy_bytes(at, record->value.data, record->value.size);
    return KV_OK;
}

#define RECORD_EXPIRY_BYTES 8u
#define RECORD_PART_BYTES   16u

/* Returns `bytes` with the padding that follows them in a record. */
static inline uint64_t record_padded(uint64_t bytes)
{
    return (bytes + RECORD_ALIGNMENT - 1) & ~(uint64_t)(RECORD_ALIGNMENT - 1);
}

/* The bytes that a record without a part takes in the log, padding included: a multiple of
 * RECORD_ALIGNMENT. */
static inline uint64_t record_size(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry)
{
    return record_padded(RECORD_HEADER_BYTES + (has_expiry ? RECORD_EXPIRY_BYTES : 0) + key_bytes +
                         value_bytes);
}

/* The bytes that `record` takes in the log, if its value has value_bytes. */
static inline uint64_t record_bytes_in_log(const struct record *record, uint64_t value_bytes)
{
    return record_padded(RECORD_HEADER_BYTES + (record->expiry_ms != 0 ? RECORD_EXPIRY_BYTES : 0) +
                         (record->transaction != 0 ? RECORD_PART_BYTES : 0) + record->key.size +
                         value_bytes);
}

/* Makes `record`, which may be of a transaction, one that stands alone: to be written elsewhere,
 * when the transaction is known to be whole. */
static inline void record_detach(struct record *record)
{
    record->goes_on = false;
    record->transaction = 0;
}

/* Writes `record`, whose value continues in `value_tail`, to `at`, which has room for
 * record_bytes_in_log() bytes, as it belongs at `offset` of a file with the salt `salt`. The
 * checksum is taken over the bytes that were written, since the source may change meanwhile. The
 * caller has checked the sizes of key and value. Returns record_bytes_in_log(). */
uint64_t record_write(uint8_t *at, const struct record *record, struct kv_slice value_tail,
                      uint64_t salt, uint64_t offset);

/* Writes the same piece by piece, for a record that is written with calls: put(context, bytes,
 * size, at) gets `size` bytes of the record, laid out in `room`, that belong `at` bytes from its
 * start. If `room`, of room_bytes (RECORD_MAX_HEADER_BYTES at least), has place for the whole
 * record, it is put at once; else in pieces that end, as far as possible, at multiples of
 * room_bytes in the file, the checksum last: until then the bytes are no record. Returns 0, or a
 * result of `put` that was not 0: then nothing more was put. */
typedef int record_put(void *context, const uint8_t *bytes, uint64_t size, uint64_t at);
int record_write_pieces(const struct record *record, struct kv_slice value_tail, uint64_t salt,
                        uint64_t offset, uint8_t *room, uint64_t room_bytes, record_put *put,
                        void *context);

/* Parses and verifies the bytes at `at`, of which `available` may be read, as a record at `offset`
 * of a file with the salt `salt`. On RECORD_VALID fills *record (slices into `at`) and *size_bytes.
 * */
enum record_verdict record_read(const uint8_t *at, uint64_t available, uint64_t salt,
                                uint64_t offset, struct record *record, uint64_t *size_bytes);

/* record_read without the checksum: checks bounds, kind and flags only. For records that this
 * process wrote or verified itself. */
enum record_verdict record_parse(const uint8_t *at, uint64_t available, struct record *record,
                                 uint64_t *size_bytes);

/* What record_read checks beyond record_parse: whether checksum and padding are right of `record`,
 * which record_parse gave from the bytes at `at`. */
bool record_is_sound(const uint8_t *at, const struct record *record, uint64_t salt,
                     uint64_t offset);

#endif
