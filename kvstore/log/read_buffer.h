/*
 * read_buffer: stretches of a log file that a thread has read with system calls, where the store
 * does not map its files (KVSTORE_IO_PREAD, KVSTORE_IO_DIRECT). Each thread has one buffer for each
 * use below, so that what it looked up stays while it reads something else. Memory is allocated at
 * the first use and freed with the thread. Between operations a thread keeps at most
 * READ_BUFFER_KEPT_BYTES per buffer (read_buffer_trim; the compactor keeps that of its last walk).
 * During an operation, a buffer is as large as the largest record that is read (kvstore_options).
 *
 * A buffer does not know which file its bytes come from: before it reads, an operation forgets what
 * an earlier one left. Within one operation, under the file's lock or as a reader without one
 * (variants.h), bytes before the tail do not change.
 *
 * Threads: a buffer belongs to its thread. Bytes stay until the next call for the same buffer.
 */
#ifndef MQKV_KVSTORE_LOG_READ_BUFFER_H
#define MQKV_KVSTORE_LOG_READ_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

enum read_buffer {
    READ_BUFFER_LOOKUP, /* the record of a key that is looked up */
    READ_BUFFER_MIRROR, /* one that goes to the next generation too */
    READ_BUFFER_VISIT,  /* one of many, here and there: scan, sweep */
    READ_BUFFER_WALK,   /* one after the other: recovery, compaction */
    READ_BUFFER_APPEND, /* not read: a record that is to be written */
    READ_BUFFER_COUNT
};

#define READ_BUFFER_KEPT_BYTES (UINT64_C(128) << 10)

/* Makes the buffer empty. */
void read_buffer_forget(enum read_buffer buffer);

/* After an operation: gives back what the thread's buffers have beyond READ_BUFFER_KEPT_BYTES. */
void read_buffer_trim(void);

/* `size` bytes of the file from `offset` on; what is missing is read, and something beyond, but not
 * past `end`: 4 KiB in all, for READ_BUFFER_WALK 1 MiB. NULL and errno: an error of the read,
 * ENODATA if the file has fewer bytes, ENOMEM; the buffer is then empty. */
const uint8_t *read_buffer_read(enum read_buffer buffer, int fd, uint64_t offset, uint64_t size,
                                uint64_t end);

/* The same past the page cache: of a file opened with O_DIRECT, whole pages (PAGE_BYTES), 8 KiB
 * from `offset` on at least. What is read beyond `end` is not given. */
const uint8_t *read_buffer_read_direct(enum read_buffer buffer, int fd, uint64_t offset,
                                       uint64_t size, uint64_t end);

/* Would read_buffer_read give these bytes without reading? */
bool read_buffer_holds(enum read_buffer buffer, uint64_t offset, uint64_t size);

/* Room for `size` bytes, which have no contents yet. NULL: out of memory. */
uint8_t *read_buffer_reserve(enum read_buffer buffer, uint64_t size);

#endif
