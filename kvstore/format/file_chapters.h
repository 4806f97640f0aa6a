/*
 * file_chapters: who wrote which part of a log, in its header page, so that two states of one file
 * can be told apart, however alike they look.
 *
 * A *chapter* is what was appended from one opening for writing to the next; it has a random
 * number. A log only grows. So if two files have the same salt, and the chapter that has the last
 * byte before an offset has the same number in both, the files are equal up to that offset: after a
 * file was put back to an earlier state, its next opening begins another chapter where that state
 * ends. An opening that finds all as it was left (takeover.h) continues the chapter.
 *
 *   3584   16 each  chapters, in the order of the file: 8 number, not 0; 8 where it begins. After
 *                   them zeros, to 30 in all
 *   4064   24    what may have gone and left no record (struct file_gone): version, expiry_ms, end
 *   4088    8       checksum over bytes 3584 .. 4087, seeded with the salt
 *
 * When there is no room for another chapter, the first is left out. Where the checksum does not
 * hold, or the bytes are zeros, there is no chapter, and all may have gone: files of older versions
 * have no chapters, and older versions leave the bytes as they are.
 */
#ifndef MQKV_KVSTORE_FORMAT_FILE_CHAPTERS_H
#define MQKV_KVSTORE_FORMAT_FILE_CHAPTERS_H

#include <stdint.h>

#define FILE_CHAPTERS_OFFSET 3584u /* in the header page: a disk sector */
#define FILE_CHAPTERS_BYTES  512u
#define FILE_CHAPTERS_MOST   30u

struct file_chapter {
    uint64_t number;
    uint64_t begin;
};

/* Which entries may have gone without a record in the file that says so. */
struct file_gone {
    /* Records with versions up to `version`: left out by the compaction that made the file, or
     * taken by a power failure. Records that were appended since are there. */
    uint64_t version;
    /* Entries that had expired by expiry_ms and whose records begin before `end`: taken out by a
     * sweep. */
    uint64_t expiry_ms;
    uint64_t end;
};

struct file_chapters {
    uint32_t count;
    struct file_chapter list[FILE_CHAPTERS_MOST];
    struct file_gone gone;
};

/* Read and write the chapters in `page`, of FILE_HEADER_BYTES, of a file with the salt `salt`. */
void file_chapters_read(const uint8_t *page, uint64_t salt, struct file_chapters *chapters);
void file_chapters_write(uint8_t *page, uint64_t salt, const struct file_chapters *chapters);

/* Begins a chapter `number` at `begin`; chapters that begin there or later are dropped. */
void file_chapters_begin(struct file_chapters *chapters, uint64_t number, uint64_t begin);

/* The number of the last chapter of a log that ends at `end`; 0: not known. */
uint64_t file_chapters_at(const struct file_chapters *chapters, uint64_t end);

#endif
