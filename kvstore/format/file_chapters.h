/*
 * file_chapters: who wrote which part of a log, in its header page, so that two states of one file
 * can be told apart, however alike they look.
 *
 * A *chapter* is what was appended from one opening for writing to the next; it has a random
 * number. A log only grows. So if two files have the same salt, and the chapter that has the last
 * byte before an offset has the same number in both, they are equal as far as that offset: whoever
 * puts a file back to an earlier state and opens it begins another chapter where that state ends.
 * An opening that finds all as it was left (takeover.h) goes on with the chapter.
 *
 *   3584   16 each  chapters, in the order of the file: 8 number, not 0; 8 where it begins. After
 *                   them zeros, to 30 in all
 *   4064   24    what may have gone and left no record (struct file_gone): version, expiry_ms, end
 *   4088    8       checksum over bytes 3584 .. 4087, seeded with the salt
 *
 * When there is no room for another one, the first is left out. Zeros, or what does not hold, is no
 * chapter, and all may have gone: files of older versions have none, and these leave them as they
 * are.
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

/* What may have gone and left no record in the file. */
struct file_gone {
    /* Records with versions up to it: left out by the compaction that made the file, or taken by a
     * power failure. What was appended since is there. */
    uint64_t version;
    /* Entries that had expired by then, taken out by a sweep, of those whose records begin before
     * `end`. */
    uint64_t expiry_ms;
    uint64_t end;
};

struct file_chapters {
    uint32_t count;
    struct file_chapter list[FILE_CHAPTERS_MOST];
    struct file_gone gone;
};

/* `page` has FILE_HEADER_BYTES. */
void file_chapters_read(const uint8_t *page, uint64_t salt, struct file_chapters *chapters);
void file_chapters_write(uint8_t *page, uint64_t salt, const struct file_chapters *chapters);

/* From `begin` on a new chapter follows, whatever those there say of what lies behind it. */
void file_chapters_begin(struct file_chapters *chapters, uint64_t number, uint64_t begin);

/* The number of the chapter that the log ends in if it ends at `end`; 0: not known. */
uint64_t file_chapters_at(const struct file_chapters *chapters, uint64_t end);

#endif
