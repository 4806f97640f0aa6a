#include "common/memory/whole_io.h"

#include <errno.h>
#include <unistd.h>

ssize_t whole_read(int fd, void *data, size_t size, off_t offset, size_t unit_bytes)
{
    size_t done = 0;
    while (done < size && done % unit_bytes == 0) {
        ssize_t got = pread(fd, (char *)data + done, size - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

bool whole_write(int fd, const void *data, size_t size, off_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(fd, (const char *)data + done, size - done, offset + (off_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0) /* no progress and no reason: do not spin */
            errno = EIO;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}
