/*
 * fileheader: the header page of a data file, as bytes.
 * docs/FORMAT.md is the contract with other programs; this is the one place that builds and parses
 * them. Integers are little-endian; checksums are XXH3_64.
 *
 *   offset size field
 *        0    8 magic "mqkvdata"
 *        8    4 format version: 1, or 2 once a transaction of several records was written to it
 *       12    4 D, the data files of the store
 *       16    4 number of this file, 0 .. D-1
 *       20    4 zero
 *       24    8 store seed: of the hash of keys; the same in every file of the store
 *       32    8 salt: of the record checksums; another in every physical file
 *       40    8 checksum over bytes 0 .. 39, the version taken for 1
 *
 *      512   48 progress, slot 0     (each in a disk sector of its own, so that a power
 *     1024   48 progress, slot 1      failure during a write can spoil one at most)
 *
 *     1536   32 note: the boot of the machine that the file was last opened for writing in
 *     2048   32 note: the key of the index's hash; that of data.0000 counts
 *     2560   32 note: which log this one has replaced, and where the changes go on
 *     3072   32 note: the name of its stream of changes
 *     3584  512 chapters: file_chapters.h
 *
 *   progress:  0  8 sequence: slot number = sequence % 2; the valid slot with the higher one counts
 *              8  8 synced_offset: every byte before it was on disk when this was written
 *             16  8 version_floor: no version up to it may be given to a new write
 *             24  8 checksum over bytes 0 .. 23, seeded with the salt
 *             32  8 settled: the transactions of several files up to this number were whole and on
 *                   disk, in all files, when this was written; of both slots the higher one counts
 *             40  8 checksum over bytes 0 .. 7 and 32 .. 39, seeded with the salt; 0 if settled is,
 *                   as older versions leave both
 *   note:      0 16 what is noted
 *             16  8 zero
 *             24  8 checksum over bytes 0 .. 23, seeded with the salt
 *   A note of zeros was never made: files of older versions have none.
 *
 * The first record is at FILE_HEADER_BYTES.
 */
#ifndef MQKV_KVSTORE_FORMAT_FILEHEADER_H
#define MQKV_KVSTORE_FORMAT_FILEHEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/format/file_name.h"
#include "kvstore/format/keyhash.h"

#define FILE_HEADER_BYTES   4096u
#define FILE_FORMAT_VERSION 1u /* of a new file */
#define FILE_FORMAT_NEWEST  2u /* whose records may be parts of transactions (record.h) */

/* The facts of a physical file that never change. */
struct file_identity {
    uint32_t format_version;
    uint32_t datafiles;
    uint32_t number;
    uint64_t store_seed;
    uint64_t salt;
    struct hash_key hash_key; /* from a note, not from the bytes above: may be none */
};

/* The facts that are rewritten while the file is in use. */
struct file_progress {
    uint64_t sequence;
    uint64_t synced_offset;
    uint64_t version_floor;
    uint64_t settled;
};

enum fileheader_verdict {
    FILEHEADER_VALID,
    FILEHEADER_FOREIGN,      /* no data file of mqkv at all */
    FILEHEADER_OTHER_FORMAT, /* *identity has the format version, nothing else */
    FILEHEADER_DAMAGED
};

#define FILE_IDENTITY_BYTES 48u
#define FILE_FORMAT_BYTES   4u

/* Write and read `identity` in a header page, of FILE_HEADER_BYTES, as in every call below. */
void fileheader_write_identity(uint8_t *page, const struct file_identity *identity);
enum fileheader_verdict fileheader_read_identity(const uint8_t *page,
                                                 struct file_identity *identity);

/* Changes the format version alone, FILE_FORMAT_BYTES, and returns where they are in the page. */
uint32_t fileheader_write_format(uint8_t *page, uint32_t format_version);

/* Writes `progress` to the slot that its sequence picks; the other slot stays as it is. */
void fileheader_write_progress(uint8_t *page, uint64_t salt, const struct file_progress *progress);

/* Returns the offset of that slot in the page. */
#define FILE_PROGRESS_BYTES 48u
uint32_t fileheader_progress_offset(const struct file_progress *progress);

/* Reads the newer valid slot, and the highest valid `settled` of both. False: there is none. */
bool fileheader_read_progress(const uint8_t *page, uint64_t salt, struct file_progress *progress);

/* Notes, which are written once, or rarely. */
enum file_note { FILE_NOTE_BOOT, FILE_NOTE_HASH_KEY, FILE_NOTE_REPLACED, FILE_NOTE_STREAM };
#define FILE_NOTE_BYTES 16u /* of what is noted */

enum fileheader_note_state {
    FILEHEADER_NOTE_ABSENT,
    FILEHEADER_NOTE_VALID,
    FILEHEADER_NOTE_DAMAGED
};

void fileheader_write_note(uint8_t *page, enum file_note note, uint64_t salt,
                           const uint8_t bytes[FILE_NOTE_BYTES]);

/* Reads a note; `bytes` are zeros unless it is valid. */
enum fileheader_note_state fileheader_read_note(const uint8_t *page, enum file_note note,
                                                uint64_t salt, uint8_t bytes[FILE_NOTE_BYTES]);

/* Does the same for the hash key of `identity`. A key that is none is not written; without a valid
 * note none is read. */
void fileheader_write_hash_key(uint8_t *page, const struct file_identity *identity);
void fileheader_read_hash_key(const uint8_t *page, struct file_identity *identity);

/* The log that a compaction has replaced by this one: changes that the replaced log has not got are
 * behind `begin` of this one. */
struct file_replaced {
    uint64_t salt;  /* of that log; 0: none */
    uint64_t end;   /* of its records */
    uint64_t begin; /* the tail of this log when it took its place */
};

/* False: *replaced cannot be noted (an offset of 32 GiB). */
bool fileheader_write_replaced(uint8_t *page, uint64_t salt, const struct file_replaced *replaced);

/* Reads the note; *replaced is all 0 where there is no valid note. */
void fileheader_read_replaced(const uint8_t *page, uint64_t salt, struct file_replaced *replaced);

/* The name of the log in positions of its changes: a random number, since the salt is a secret. 0:
 * there are no such positions. */
void fileheader_write_stream(uint8_t *page, uint64_t salt, uint64_t stream);
uint64_t fileheader_read_stream(const uint8_t *page, uint64_t salt);

/* Where the note is in the page, and how much of it. */
#define FILE_NOTE_PLACE_BYTES 32u
uint32_t fileheader_note_offset(enum file_note note);

#endif
