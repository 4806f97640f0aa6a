/*
 * read_range: reads a range of a file, whatever signals come.
 *
 * Threads: any.
 */
#ifndef MQKV_COMMON_MEMORY_READ_RANGE_H
#define MQKV_COMMON_MEMORY_READ_RANGE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* Reads `size` bytes at `offset` of the file `fd` into `data`. False: the file ends before, or
 * cannot be read (errno); `data` may have some of the bytes then. */
static inline bool read_range(int fd, void *data, uint64_t size, uint64_t offset)
{
    uint8_t *at = data;
    while (size > 0) {
        ssize_t got = pread(fd, at, size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return true;
}

#endif
