/*
 * read_buffer: stretches of a log file that a thread has read with system calls, where the store
 * does not map its files (KVSTORE_IO_PREAD, KVSTORE_IO_DIRECT). Each thread has one buffer for each
 * use below, so that a record it looked up stays while the thread reads another one. Memory is
 * allocated at the first use and freed with the thread. Between operations a thread keeps at most
 * READ_BUFFER_KEPT_BYTES per buffer (read_buffer_trim; the compactor keeps the buffer of its last
 * walk). During an operation, a buffer is as large as the largest record that is read
 * (kvstore_options).
 *
 * A buffer does not know which file its bytes come from: before an operation reads, it forgets what
 * an earlier operation left. Within one operation, under the file's lock or as a reader without a
 * lock (variants.h), bytes before the tail do not change.
 *
 * Threads: a buffer belongs to its thread. Bytes stay until the next call for the same buffer.
 */
#ifndef MQKV_KVSTORE_LOG_READ_BUFFER_H
#define MQKV_KVSTORE_LOG_READ_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

enum read_buffer {
    READ_BUFFER_LOOKUP,    /* the record of a key that is looked up */
    READ_BUFFER_MIRROR,    /* a record that goes to the next generation too */
    READ_BUFFER_VISIT,     /* records in any order, or a few dozen in a row: scan, sweep, changes */
    READ_BUFFER_WALK,      /* a whole log in its order: recovery, compaction */
    READ_BUFFER_APPEND,    /* a record that is to be written */
    READ_BUFFER_KEY,       /* a key that another one is compared with (order/) */
    READ_BUFFER_OTHER_KEY, /* another one of the same hash */
    READ_BUFFER_COUNT
};

#define READ_BUFFER_KEPT_BYTES (UINT64_C(128) << 10)

/* Makes the buffer empty. */
void read_buffer_forget(enum read_buffer buffer);

/* After an operation: frees the thread's buffers of more than READ_BUFFER_KEPT_BYTES. */
void read_buffer_trim(void);

/* Returns `size` bytes of the file of `fd` from `offset` on. What `buffer` does not have is read,
 * and some bytes beyond, but not past `end`: 4 KiB in all, for READ_BUFFER_WALK 1 MiB. NULL and
 * errno: an error of the read, ENODATA if the file has fewer bytes, ENOMEM; the buffer is then
 * empty. */
const uint8_t *read_buffer_read(enum read_buffer buffer, int fd, uint64_t offset, uint64_t size,
                                uint64_t end);

/* The same past the page cache, of a file opened with O_DIRECT: reads whole pages (PAGE_BYTES), at
 * least 8 KiB from `offset` on. Bytes beyond `end` that were read are not kept. */
const uint8_t *read_buffer_read_direct(enum read_buffer buffer, int fd, uint64_t offset,
                                       uint64_t size, uint64_t end);

/* Returns true if read_buffer_read would return these bytes without reading. */
bool read_buffer_holds(enum read_buffer buffer, uint64_t offset, uint64_t size);

/* Returns room for `size` bytes, without contents yet. NULL: out of memory. */
uint8_t *read_buffer_reserve(enum read_buffer buffer, uint64_t size);

#endif
