/*
 * commit_entry: the commit log of a store as bytes: the bytes of its data files that a sync of this
 * one file made durable. docs/FORMAT.md is the contract with other programs. Integers are
 * little-endian; checksums are XXH3_64.
 *
 *   header:  0  8 magic "mqkvcmit"
 *            8  4 format version
 *           12  4 zero
 *           16  8 store seed
 *           24  8 epoch: changes each time the log begins anew; only entries of this epoch count
 *           32  8 checksum over bytes 0 .. 31
 *   entry:   0  8 checksum over bytes 8 .. 31 and the content, seeded with epoch ^ its place
 *            8  4 size of the content, 1 at least
 *           12  4 number of the data file
 *           16  8 salt of the data file
 *           24  8 where in the data file the content belongs
 *           32    the content, and zeros up to a multiple of 8 bytes
 *
 * Entries follow each other from COMMIT_HEADER_BYTES on; bytes that are no entry of this epoch are
 * the end.
 */
#ifndef MQKV_KVSTORE_FORMAT_COMMIT_ENTRY_H
#define MQKV_KVSTORE_FORMAT_COMMIT_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#define COMMIT_LOG_NAME "commit.log"
#ifndef COMMIT_LOG_BYTES                     /* else tests have it begin anew often */
#define COMMIT_LOG_BYTES (UINT64_C(4) << 20) /* of the file, at most */
#endif
#define COMMIT_HEADER_BYTES   4096u
#define COMMIT_ENTRY_BYTES    32u /* before the content */
#define COMMIT_FORMAT_VERSION 1u

/* Writes the header to `page`, of COMMIT_HEADER_BYTES. */
void commit_header_write(uint8_t *page, uint64_t store_seed, uint64_t epoch);

/* Reads the header in `page`. False: there is none of the store of `store_seed`, or a power failure
 * has torn it. */
bool commit_header_read(const uint8_t *page, uint64_t store_seed, uint64_t *epoch);

struct commit_entry {
    uint32_t number;
    uint32_t size;
    uint64_t salt;
    uint64_t offset;
};

/* Bytes that an entry with content_bytes of content takes in the log. */
static inline uint64_t commit_entry_size(uint64_t content_bytes)
{
    return (COMMIT_ENTRY_BYTES + content_bytes + 7) & ~UINT64_C(7);
}

/* Writes the bytes before and after the content, which lies at `at` + COMMIT_ENTRY_BYTES already,
 * of an entry that will lie at `place` of the log. */
void commit_entry_write(uint8_t *at, const struct commit_entry *entry, uint64_t epoch,
                        uint64_t place);

/* Reads the entry at `at`, of which `available` bytes may be read. False: there is none of that
 * epoch and place. */
bool commit_entry_read(const uint8_t *at, uint64_t available, uint64_t epoch, uint64_t place,
                       struct commit_entry *entry);

#endif
