/*
 * logfile: one physical log file: a header page (fileheader.h) and the records after it, mapped
 * into memory for reading and appending, or read and written with system calls (enum kvstore_io).
 * Large records are always written with calls, which leave less to do for the kernel. Callers see
 * no difference, but for where a record's bytes lie, how long they stay, and that reading can fail:
 * with a mapping they lie in it and stay as long as it; without, in the read buffer that the caller
 * names (read_buffer.h), until that is used again. With KVSTORE_IO_DIRECT what goes to
 * READ_BUFFER_LOOKUP is read past the page cache, through a descriptor of its own.
 *
 * The mapping covers all that the file may ever grow to and never moves; the file is allocated in
 * steps ahead of its tail, and nothing is touched beyond what is allocated, so that a full disk is
 * an error of the allocation and never a SIGBUS in the middle of a record.
 *
 * Threads: none of its own. The fields are covered by the data file's lock, but for `progress`,
 * which belongs to whoever syncs the file (one at a time: sync.h), and for logfile_sync, which
 * needs none. logfile_read and logfile_parse need none either for an offset that came out of the
 * index, as long as the file is not closed: bytes below the tail never change.
 */
#ifndef MQKV_KVSTORE_LOG_LOGFILE_H
#define MQKV_KVSTORE_LOG_LOGFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
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

/* Files are allocated in multiples of this, where the disk is not nearly full. */
#define LOGFILE_UNIT_BYTES (UINT64_C(64) << 10)

struct logfile {
    int fd;
    int direct_fd; /* the file once more, with O_DIRECT; -1: not KVSTORE_IO_DIRECT */
    bool writable;
    uint8_t *map;             /* NULL: system calls */
    struct mapguard *guard;   /* of the mapping */
    uint64_t map_bytes;       /* address space; the file cannot grow beyond */
    uint64_t allocated_bytes; /* <= map_bytes; may be touched */
    uint64_t tail;            /* where the next record goes, <= allocated_bytes */
    uint64_t populated_bytes; /* pages before are not worth populating (again) */
    uint64_t zeroed_bytes;    /* the same of bringing them in with zeros */
    bool synced_often;        /* logtail_expect_syncs */
    uint8_t *bundle;          /* NULL: none is open (logtail.h) */
    uint64_t bundle_from;     /* where what is in it belongs */
    struct verified_bitmap verified;
    enum boot boot;         /* that it was written in, as was noted before this open */
    bool notes_are_missing; /* some were never made */
    uint64_t stream;        /* the name of its changes (fileheader.h) */
    uint64_t chapter;       /* the number of the last one in its header; 0: it has none */
    struct file_gone gone;  /* as its header has it */
    struct file_identity identity;
    struct file_progress progress;
};

/* Creates `name` (replacing what is there) with a header page and room for `room_bytes` of records.
 * Records of versions up to version_floor may have gone. The file is not synced, nor its directory.
 * On failure nothing is left behind. */
enum kv_status logfile_create(struct logfile *log, enum kvstore_io io, int dir_fd, const char *name,
                              const struct file_identity *identity, uint64_t version_floor,
                              uint64_t room_bytes, struct kv_error *error);

/* Opens `name`, which must hold a valid header of this format: KV_MISMATCH, KV_CORRUPT. Its tail
 * is still to be found: it is set to FILE_HEADER_BYTES. KV_NOT_FOUND if there is no such file. Of
 * both calls: KV_UNSUPPORTED if the file system has no reads past the page cache; the open tries
 * one. */
enum kv_status logfile_open(struct logfile *log, enum kvstore_io io, int dir_fd, const char *name,
                            bool writable, struct kv_error *error);

/* What the name of a data file stands for, if the open failed with that errno because it is no
 * regular file; else NULL. */
const char *logfile_other_kind(int error_number);

/* Unmaps and closes, without a sync. */
void logfile_close(struct logfile *log);

/* Bytes of the file that were there are gone, or cannot be read: the disk, or somebody has
 * shortened the file (with a mapping; by calls each read tells). What is read after that may be
 * zeros, and what is written lost: nothing read from it that was not verified since may be given
 * out, nothing may be written, and nothing of it be called durable. */
static inline bool logfile_is_broken(const struct logfile *log)
{
    return mapguard_is_broken(log->guard);
}

/* Before the reads of an operation: what an earlier one left in the read buffer is forgotten. */
static inline void logfile_begin(const struct logfile *log, enum read_buffer buffer)
{
    if (!log->map)
        read_buffer_forget(buffer);
}

/* After an operation that has read: nothing of the logs is looked at any more. */
static inline void logfile_end(enum kvstore_io io)
{
    if (__builtin_expect(io != KVSTORE_IO_MMAP, 0))
        read_buffer_trim();
}

/* Where the log ends now, also for readers without the lock. Who has an offset from the index sees
 * a tail beyond the record there, since the tail was written first; and what lies before a tail
 * that was seen is there, as a buffer that reads ahead needs it. */
static inline uint64_t logfile_end_of(const struct logfile *log)
{
    return __atomic_load_n(&log->tail, __ATOMIC_ACQUIRE);
}

/* logfile_parse without a mapping. */
enum record_verdict logfile_parse_by_call(const struct logfile *log, enum read_buffer buffer,
                                          uint64_t offset, struct record *record,
                                          uint64_t *size_bytes);

/* The record at an offset below the tail: parsed, so that its key may be used and its value not
 * (logfile_parse); whole (logfile_load); whole and verified (logfile_read). RECORD_UNREADABLE, with
 * errno: it could not be read. */
static inline enum record_verdict logfile_parse(const struct logfile *log, enum read_buffer buffer,
                                                uint64_t offset, struct record *record,
                                                uint64_t *size_bytes)
{
    if (!log->map)
        return logfile_parse_by_call(log, buffer, offset, record, size_bytes);
    return record_parse(log->map + offset, logfile_end_of(log) - offset, record, size_bytes);
}
enum record_verdict logfile_load(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, struct record *record, uint64_t *size_bytes);
enum record_verdict logfile_read(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, struct record *record, uint64_t *size_bytes);

/* As logfile_read with another end of the log than its tail: no lock is needed for what lies before
 * an offset that was the tail once. */
enum record_verdict logfile_read_before(const struct logfile *log, enum read_buffer buffer,
                                        uint64_t offset, uint64_t end, struct record *record,
                                        uint64_t *size_bytes);

/* As logfile_read_before, but a large record of a mapped log that this process has written or
 * verified before is parsed only: then *verified is false, and logfile_verify does it if need
 * be. */
enum record_verdict logfile_walk(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, uint64_t end, struct record *record,
                                 uint64_t *size_bytes, bool *verified);
bool logfile_verify(const struct logfile *log, uint64_t offset, const struct record *record);

/* Does reading the record at the offset leave the read buffer as it is? Always with a mapping. */
bool logfile_holds(const struct logfile *log, enum read_buffer buffer, uint64_t offset);

/* Is there nothing, zeros, at the offset, which is not beyond what is allocated? */
bool logfile_is_end(const struct logfile *log, uint64_t offset);

/* `size` bytes of the file that are allocated, in the mapping or the read buffer; NULL and errno:
 * they cannot be read. */
const uint8_t *logfile_bytes(const struct logfile *log, enum read_buffer buffer, uint64_t offset,
                             uint64_t size);

/* Asks for the first cache lines of the record at an offset below the tail, without waiting for
 * them. */
void logfile_prefetch(const struct logfile *log, uint64_t offset);

/* Before an existing log is read to be written to: what is dirty in memory is synced (-1 and errno:
 * that failed), and what was not synced before then is forgotten, so that it is read from the disk;
 * what others map, which stays in memory, is written there once more (the same errors). For after a
 * failed sync the kernel may keep pages as clean that never got there: a log that was read from
 * these would be called durable, and every record after them be lost with them. */
int logfile_flush_and_forget(const struct logfile *log);

/* fdatasync; -1 and errno. */
int logfile_sync(const struct logfile *log);

/* Notes in the header that everything before synced_offset is on disk. The note itself gets there
 * with a later sync, so never before what it speaks of. -1 and errno: it could not be written
 * (never with a mapping); log->progress has it all the same, and the next note repeats it. */
int logfile_note_progress(struct logfile *log, uint64_t synced_offset, uint64_t version_floor);

#endif
