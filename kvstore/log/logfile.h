/*
 * logfile: one physical log file: a header page (fileheader.h) and the records after it, mapped
 * into memory for reading and appending, or read and written with system calls (enum kvstore_io).
 * Large records are always written with calls, which leave less work for the kernel. The difference
 * for callers is where a record's bytes lie, how long they stay, and that reading can fail: with a
 * mapping, bytes lie in the mapping and stay as long as it; without, they lie in the read buffer
 * that the caller names (read_buffer.h), until the buffer is used again. With KVSTORE_IO_DIRECT,
 * reads to READ_BUFFER_LOOKUP go past the page cache, through a descriptor of their own.
 *
 * The mapping covers all that the file may ever grow to and never moves; the file is allocated in
 * steps ahead of its tail, and nothing is touched beyond what is allocated, so that a full disk is
 * an error of the allocation and never a SIGBUS in the middle of a record.
 *
 * Threads: none of its own. The data file's lock covers the fields, except `progress`, which
 * belongs to the holder of the file's sync slot (sync_slot.h). logfile_sync needs no lock.
 * logfile_read and logfile_parse need none for an offset that came out of the index, as long as the
 * file is not closed, and for a value pointer as long as the index leads to it: bytes below the
 * tail never change, except in extents whose content counts no more (free_extents.h).
 */
#ifndef MQKV_KVSTORE_LOG_LOGFILE_H
#define MQKV_KVSTORE_LOG_LOGFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "common/assert/assert.h"
#include "common/memory/mapguard.h"
#include "kvstore/log/boot.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/record.h"
#include "kvstore/format/verified_bitmap.h"
#include "kvstore/log/read_buffer.h"

/* Offsets in the index are 32 bits in units of 8 bytes. */
#define LOGFILE_MAX_BYTES (UINT64_C(1) << 35)

/* Files are allocated in multiples of this, unless the disk is nearly full. */
#define LOGFILE_UNIT_BYTES (UINT64_C(64) << 10)

struct logfile {
    int fd;
    int direct_fd; /* a second descriptor, with O_DIRECT; -1: not KVSTORE_IO_DIRECT */
    bool writable;
    uint8_t *map;             /* NULL: system calls */
    struct mapguard *guard;   /* of the mapping */
    uint64_t map_bytes;       /* address space; the file cannot grow beyond */
    uint64_t allocated_bytes; /* <= map_bytes; may be touched */
    uint64_t tail;            /* where the next record goes, <= allocated_bytes */
    uint64_t unerased_end;    /* 0, or where what is left of a record behind the tail may end */
    uint64_t populated_bytes; /* pages before this offset need not be populated (again) */
    uint64_t zeroed_bytes;    /* pages before this offset need not be brought in with zeros */
    bool synced_often;        /* logtail_expect_syncs */
    bool blocks_stay;         /* a page that has its block needs no room on disk to be written */
    uint8_t *bundle;          /* NULL: no bundle is open (logtail.h) */
    uint64_t bundle_from;     /* offset of the bundle's first byte */
    struct verified_bitmap verified;
    enum boot boot;         /* in which the file was written, as was noted before this open */
    bool notes_are_missing; /* some notes of the header were never made */
    uint64_t stream;        /* the name of the log's changes (fileheader.h) */
    uint64_t chapter;       /* the number of the last chapter in the header; 0: there is none */
    struct file_gone gone;  /* as in the header */
    struct file_identity identity;
    struct file_progress progress;
};

/* Creates `name` in the directory of `dir_fd`, in place of a file that is there, with a header page
 * of `identity` and room for `room_bytes` of records. Records of versions up to version_floor may
 * have gone. File and directory are not synced. On failure, with a sentence in `error`, nothing is
 * left behind. */
enum kv_status logfile_create(struct logfile *log, enum kvstore_io io, int dir_fd, const char *name,
                              const struct file_identity *identity, uint64_t version_floor,
                              uint64_t room_bytes, struct kv_error *error);

/* Opens `name`, which must have a valid header of this format: KV_MISMATCH, KV_CORRUPT. The log's
 * tail, which is still to be found, is set to FILE_HEADER_BYTES. KV_NOT_FOUND: there is no such
 * file. Both calls return KV_UNSUPPORTED if the file system has no reads past the page cache, which
 * the open tries. */
enum kv_status logfile_open(struct logfile *log, enum kvstore_io io, int dir_fd, const char *name,
                            bool writable, struct kv_error *error);

/* Returns what the name of a data file stands for, if an open failed with `error_number` because
 * the name is not one of a regular file; else NULL. */
const char *logfile_other_kind(int error_number);

/* Unmaps and closes the file, without a sync. */
void logfile_close(struct logfile *log);

/* Writes `size` bytes of the header page `header`, from `at` on, to the file. With a mapping
 * `header` is the mapping, and nothing is left to do. 0, or -1 and errno. */
int logfile_put_header(const struct logfile *log, const uint8_t *header, uint32_t at,
                       uint32_t size);

/* Returns true if bytes of a mapped file that were there are gone, or cannot be read, because of
 * the disk or because the file was shortened (without a mapping, each read tells). What is read
 * after that may be zeros, and what is written may be lost: nothing read from the file that was not
 * verified since may be given out, nothing may be written, and nothing may be called durable. */
static inline bool logfile_is_broken(const struct logfile *log)
{
    return mapguard_is_broken(log->guard);
}

/* Before the reads of an operation: forgets what an earlier operation left in the read buffer. */
static inline void logfile_begin(const struct logfile *log, enum read_buffer buffer)
{
    if (!log->map)
        read_buffer_forget(buffer);
}

/* After an operation that has read and looks at no bytes of a log any more. */
static inline void logfile_end(enum kvstore_io io)
{
    if (__builtin_expect(io != KVSTORE_IO_MMAP, 0))
        read_buffer_trim();
}

/* Where the log ends now, also for readers without the lock. A reader with an offset from the index
 * sees a tail beyond the record there, since the tail was written first; and the bytes before a
 * tail that was seen are there, as a buffer that reads ahead needs them. */
static inline uint64_t logfile_end_of(const struct logfile *log)
{
    return __atomic_load_n(&log->tail, __ATOMIC_ACQUIRE);
}

/* logfile_parse without a mapping. */
enum record_verdict logfile_parse_by_call(const struct logfile *log, enum read_buffer buffer,
                                          uint64_t offset, struct record *record,
                                          uint64_t *size_bytes);

/* Give the record at `offset`, below the tail, and its size: parsed, so that its key may be used
 * and its value not (logfile_parse); whole (logfile_load); whole and verified (logfile_read).
 * RECORD_UNREADABLE, with errno: the record could not be read. */
static inline enum record_verdict logfile_parse(const struct logfile *log, enum read_buffer buffer,
                                                uint64_t offset, struct record *record,
                                                uint64_t *size_bytes)
{
    KV_ASSERT(offset >= FILE_HEADER_BYTES && offset < logfile_end_of(log));
    if (!log->map)
        return logfile_parse_by_call(log, buffer, offset, record, size_bytes);
    return record_parse(log->map + offset, logfile_end_of(log) - offset, record, size_bytes);
}
enum record_verdict logfile_load(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, struct record *record, uint64_t *size_bytes);
enum record_verdict logfile_read(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, struct record *record, uint64_t *size_bytes);

/* logfile_read with another end of the log than its tail. No lock is needed if `end` was the tail
 * once. In the place of a value pointer all three give the content of the extent that it names, and
 * *size_bytes of the value pointer itself (record_entry_offset, record_entry_bytes);
 * RECORD_SUPERSEDED gives the value pointer as it stands, with content_at. */
enum record_verdict logfile_read_before(const struct logfile *log, enum read_buffer buffer,
                                        uint64_t offset, uint64_t end, struct record *record,
                                        uint64_t *size_bytes);

/* logfile_read_before, except that a large record of a mapped log that this process has written or
 * verified before, or the content of an extent, is parsed only: then *verified is false, and
 * logfile_verify verifies the record that was found at `offset`, if that is needed. */
enum record_verdict logfile_walk(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, uint64_t end, struct record *record,
                                 uint64_t *size_bytes, bool *verified);
bool logfile_verify(const struct logfile *log, uint64_t offset, const struct record *record);

/* Returns where the content of an extent that is at content_at ends; 0 if no extent with a sound
 * head, before `end`, is there. The content need not be sound. */
uint64_t logfile_extent_end(const struct logfile *log, enum read_buffer buffer, uint64_t content_at,
                            uint64_t end);

/* Returns true if reading the record at `offset` leaves the read buffer as it is; always with a
 * mapping, and never without one if it is a value pointer. */
bool logfile_holds(const struct logfile *log, enum read_buffer buffer, uint64_t offset);

/* Returns true if there is no record but zeros at `offset`, which is not beyond the allocated
 * bytes. */
bool logfile_is_end(const struct logfile *log, uint64_t offset);

/* Returns `size` allocated bytes of the file from `offset` on, in the mapping or the read buffer.
 * NULL and errno: they cannot be read. */
const uint8_t *logfile_bytes(const struct logfile *log, enum read_buffer buffer, uint64_t offset,
                             uint64_t size);

/* Asks for the first cache lines of the record at `offset`, below the tail, without waiting. */
void logfile_prefetch(const struct logfile *log, uint64_t offset);

/* Before an existing log is read in order to be written to: syncs its dirty pages, drops from
 * memory the pages from the first one on that is not known to be synced, so that they are read from
 * the disk, and writes pages that other processes map, which stay in memory, once more. 0, or -1
 * and errno. The reason: after a failed sync the kernel may keep pages as clean that never got to
 * the disk. A log read from such pages would be called durable, and every record after them be lost
 * with them. */
int logfile_flush_and_forget(const struct logfile *log);

/* Calls fdatasync. 0, or -1 and errno: then the header notes that (boot.h), as far as it can be
 * written. */
int logfile_sync(const struct logfile *log);

/* Notes in the header that everything before synced_offset is on disk, and version_floor. The note
 * gets to the disk with a later sync, so never before the bytes that it speaks of. -1 and errno:
 * the note could not be written (never with a mapping); log->progress has it all the same, and the
 * next note repeats it. Holds: the file's sync slot, or the caller is alone with the file. */
int logfile_note_progress(struct logfile *log, uint64_t synced_offset, uint64_t version_floor);

#endif
