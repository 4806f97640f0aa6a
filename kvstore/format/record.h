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
 *       18    1 kind: 1 put, 2 delete, 4 extent, 5 placed
 *       19    1 flags: bit 0: an expiry follows
 *                      bit 1: the next record is of the same transaction as this one
 *                      bit 2: a part follows: the part of a transaction of several files ends here
 *                      bit 3: the record is in an extent
 *       20    8 expiry_ms, only with flag 0
 *        .   16 part, only with flag 2: 8 number of the transaction, 4 number of the data file that
 *               has the next part (after the last one the first), 4 how many parts there are
 *        .    . key, value, zero bytes up to a multiple of 8
 *
 * An extent is a place in the log that was taken before its content, a record of a put, was
 * written: the log goes on behind it. It has no key, no flags, and a value of 4 zero bytes and the
 * content; its checksum covers no more than that header and the zeros. The content, which has flag
 * 3, gets its version last, and counts when a value pointer stands behind it: key, version and
 * expiry are those of the content, the value is its offset (8 bytes). Readers get the content in
 * the place of the value pointer (logfile.h). Its checksum is that of the bytes from 20 on, seeded
 * with bytes 4 .. 7 and 16 .. 19 as well (as one number, low bytes first), and when it gets its
 * version XOR the low 32 bits of XXH3_64 over that: so it need not be read again.
 *
 * When a later record of its key has made a value pointer count no more, its extent may get another
 * content, of that size or a little less. The value pointer is superseded then, and nothing is
 * missing. A superseded one that no later record of its key follows has lost its content.
 *
 * A record is valid if its checksum holds, its kind and flags are known, key_bytes (but of an
 * extent) and version are not 0, the version is below 2^63, value_bytes of a deletion and the
 * padding are 0, an expiry that follows is not 0, nor is the number of a transaction, flags 1 and 2
 * are not both set, and it ends within the file. Records with flag 1 count together with the next
 * one, and with a part together with the other files' parts, or not at all (recovery.h). Files with
 * such records, with extents or value pointers have format 2.
 * A log position whose first RECORD_HEADER_BYTES are all zero is its end. Seeding with salt and
 * offset makes a record valid only in its own file and place: torn_tail of an older file or of a
 * cut tail never look like records.
 */
#ifndef MQKV_KVSTORE_FORMAT_RECORD_H
#define MQKV_KVSTORE_FORMAT_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/time/clock.h"
#include "common/memory/copy.h"
#include "mqkv/kvstore.h"
#include "mqkv/slice.h"

#define RECORD_HEADER_BYTES      20u
#define RECORD_MAX_HEADER_BYTES  44u /* with an expiry and a part */
#define RECORD_ALIGNMENT         8u
#define RECORD_EXTENT_HEAD_BYTES 24u /* before the content of an extent */

/* Versions are below this: far beyond what a store reaches, low enough that adding to a version
 * never overflows. */
#define RECORD_VERSION_LIMIT (UINT64_C(1) << 63)

enum record_kind { RECORD_PUT = 1, RECORD_DELETE = 2, RECORD_EXTENT = 4, RECORD_POINTER = 5 };

/* A parsed record. Its slices borrow their bytes. */
struct record {
    enum record_kind kind;
    uint64_t version;
    uint64_t expiry_ms; /* 0: none */
    struct kv_slice key;
    struct kv_slice value;
    bool goes_on;         /* the next record is of the same transaction */
    bool in_extent;       /* the record is the content of an extent */
    uint32_t next_file;   /* that has the next part of the transaction */
    uint32_t parts;       /* how many it has; this and next_file only with a transaction */
    uint64_t transaction; /* whose part ends here; 0: none */
    /* Not 0: a value pointer names the content of an extent, which begins there; kind, key and
     * value are the content's, unless the record is superseded. */
    uint64_t content_at;
};

enum record_verdict {
    RECORD_VALID,
    RECORD_END,        /* zeros: nothing was ever written here */
    RECORD_INVALID,    /* neither a record nor zeros */
    RECORD_SUPERSEDED, /* a value pointer, sound, whose content is not in its extent (any more) */
    RECORD_UNREADABLE  /* returned by logfile.h only: the bytes could not be read; errno */
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

/* The offset and the size of what an index points at for `record`, which was read at `offset` with
 * size_bytes. */
static inline uint64_t record_entry_offset(const struct record *record, uint64_t offset)
{
    return record->content_at != 0 ? record->content_at : offset;
}
static inline uint64_t record_entry_bytes(const struct record *record, uint64_t size_bytes)
{
    return record->content_at != 0
               ? record_size(record->key.size, record->value.size, record->expiry_ms != 0)
               : size_bytes;
}

/* Makes `record`, which may be of a transaction or in an extent, one that stands alone: to be
 * written elsewhere, when the transaction is known to be whole. */
static inline void record_detach(struct record *record)
{
    record->goes_on = record->in_extent = false;
    record->transaction = record->content_at = 0;
}

/* Writes the head of an extent for content_bytes, a multiple of RECORD_ALIGNMENT, to `at`, as it
 * belongs at `offset` of a file with the salt `salt`. */
void record_write_extent(uint8_t at[RECORD_EXTENT_HEAD_BYTES], uint64_t version,
                         uint64_t content_bytes, uint64_t salt, uint64_t offset);

/* The version that the content of an extent is written with, until it has its own. */
#define RECORD_NO_VERSION_YET 1u

/* Gives `content` of an extent, at `offset`, its version: *checksum is the one that it was written
 * with, and becomes what it is then. `version` is to be written RECORD_VERSION_AT bytes from its
 * start. */
#define RECORD_VERSION_AT 8u
void record_number(const struct record *content, uint64_t salt, uint64_t offset,
                   uint8_t checksum[4], uint8_t version[8]);

/* Makes *placed the record that says that the content of an extent, `content`, is at content_at.
 * Its value is `value`. */
void record_place(const struct record *content, uint64_t content_at, uint8_t value[8],
                  struct record *placed);

/* Returns the offset that `placed`, of that kind, names; 0: no possible one, as it stands itself at
 * `offset`. */
uint64_t record_placed_at(const struct record *placed, uint64_t offset);

/* Returns true if `content` is what `placed` names; then it is given what that says of a
 * transaction, and content_at. */
bool record_take_place(const struct record *placed, uint64_t content_at, struct record *content);

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

/* record_read in a file whose first bytes, up to file_bytes, are at `file`: as a log is walked,
 * with the content of an extent in the place of the value pointer that names it. RECORD_SUPERSEDED
 * gives the value pointer as it stands. */
enum record_verdict record_walk(const uint8_t *file, uint64_t file_bytes, uint64_t salt,
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
