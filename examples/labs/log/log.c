#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A start that works as long as nothing happens: a length of two bytes and the record, for each. */

int log_open(struct log *log, const char *directory, log_visit visit, void *context)
{
    char record[LOG_MAX_RECORD_BYTES];
    uint16_t bytes;
    log->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (log->directory < 0)
        return errno;
    log->file = openat(log->directory, "log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (log->file < 0) {
        int error = errno;
        close(log->directory);
        return error;
    }
    while (read(log->file, &bytes, sizeof bytes) == sizeof bytes &&
           read(log->file, record, bytes) == bytes)
        visit(context, record, bytes);
    return 0;
}

int log_append(struct log *log, const void *record, size_t bytes)
{
    uint16_t length = (uint16_t)bytes;
    if (write(log->file, &length, sizeof length) < 0 || write(log->file, record, bytes) < 0)
        return errno;
    return 0;
}

int log_replace(struct log *log, const void *record, size_t bytes)
{
    if (ftruncate(log->file, 0) != 0 || lseek(log->file, 0, SEEK_SET) < 0)
        return errno;
    return log_append(log, record, bytes);
}

void log_close(struct log *log)
{
    close(log->file);
    close(log->directory);
}
