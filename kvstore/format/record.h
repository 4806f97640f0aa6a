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
 *       20    8 expiry_ms, only with the flag
 *        .    . key, value, zero bytes up to a multiple of 8
 *
 * A record is valid if its checksum holds, its kind and flags are known, key_bytes and version are
 * not 0, the version is below 2^63, value_bytes of a deletion and the padding are 0, an expiry that
 * follows is not 0, and it ends within the file. A log position whose first RECORD_HEADER_BYTES are
 * all zero is its end. Seeding with salt and offset makes a record valid only in its own file and
 * place: remains of an older file or of a cut tail never look like records.
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
#define RECORD_MAX_HEADER_BYTES 28u /* with an expiry */
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

/* The bytes that a record takes in the log, padding included: a multiple of RECORD_ALIGNMENT. */
static inline uint64_t record_size(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry)
{
    uint64_t header_bytes = has_expiry ? RECORD_MAX_HEADER_BYTES : RECORD_HEADER_BYTES;
    return (header_bytes + key_bytes + value_bytes + RECORD_ALIGNMENT - 1) &
           ~(uint64_t)(RECORD_ALIGNMENT - 1);
}

/* Writes `record`, whose value continues in `value_tail`, to `at`, which has room for record_size()
 * bytes, as it belongs at `offset` of a file with the salt `salt`. The checksum is taken over the
 * bytes that were written, since the source may change meanwhile. The caller has checked the sizes
 * of key and value. Returns record_size(). */
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
