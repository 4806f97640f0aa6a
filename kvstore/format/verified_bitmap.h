/*
 * verified_bitmap: which large records of a log this process has written or verified, so that
 * reading a record again does not take its checksum again: the checksum of a large value takes
 * longer than the copy.
 *
 * There is one bit for each VERIFIED_MIN_BYTES of the log: within these bytes at most one record of
 * that size or larger begins. So the memory is 1/131072 of the log, and taken only where bits are
 * set.
 *
 * Threads: any, without a lock. A record is noted after its bytes are there; a thread that finds
 * the note got the record's offset from the index, which is synchronised by itself.
 */
#ifndef MQKV_KVSTORE_FORMAT_VERIFIED_BITMAP_H
#define MQKV_KVSTORE_FORMAT_VERIFIED_BITMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef VERIFIED_MIN_BYTES
#define VERIFIED_MIN_BYTES UINT64_C(16384)
#endif

/* Start from {0}: nothing is noted, nor can be. */
struct verified_bitmap {
    _Atomic uint64_t
        *words; /* the first: not 0 after verified_bitmap_distrust; then the bits. Or NULL */
    uint64_t bytes;
};

/* Makes *verified one for offsets below log_bytes. Without memory nothing is ever noted. */
void verified_bitmap_init(struct verified_bitmap *verified, uint64_t log_bytes);
void verified_bitmap_free(struct verified_bitmap *verified);

/* Note that the record at `offset`, of `size_bytes`, was verified; tell whether it was. Records
 * below VERIFIED_MIN_BYTES are never noted; the calls with _large are only for larger ones. */
void verified_bitmap_note_large(const struct verified_bitmap *verified, uint64_t offset);
bool verified_bitmap_has_large(const struct verified_bitmap *verified, uint64_t offset);

static inline void verified_bitmap_note(const struct verified_bitmap *verified, uint64_t offset,
                                        uint64_t size_bytes)
{
    if (size_bytes >= VERIFIED_MIN_BYTES)
        verified_bitmap_note_large(verified, offset);
}

static inline bool verified_bitmap_has(const struct verified_bitmap *verified, uint64_t offset,
                                       uint64_t size_bytes)
{
    return size_bytes >= VERIFIED_MIN_BYTES && verified_bitmap_has_large(verified, offset);
}

/* Makes no record count as verified from now on: memory may have lost what was written. */
void verified_bitmap_distrust(const struct verified_bitmap *verified);

#endif
