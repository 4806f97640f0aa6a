#include "kvstore/log/commit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/numbers/random.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/log/fileio.h"

/* Bytes that one commit takes at most. */
#define GROUP_BYTES (COMMIT_LOG_BYTES / 16)
_Static_assert(COMMIT_HEADER_BYTES + GROUP_BYTES <= COMMIT_LOG_BYTES, "a new log has room");

struct commit_log {
    int fd;
    uint64_t store_seed;
    uint64_t epoch;
    bool header_is_due; /* to be written before the next group */
    uint64_t tail;      /* where the next group goes */
    uint64_t group_bytes;
    uint8_t header[COMMIT_HEADER_BYTES];
    uint8_t group[GROUP_BYTES];
};

static int make_log_file(int dir_fd)
{
    int fd =
        fileio->open_at(dir_fd, COMMIT_LOG_NAME, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (fileio->allocate(fd, 0, (off_t)COMMIT_LOG_BYTES) == 0 &&
        fileio->zero(fd, COMMIT_LOG_BYTES, 0) == 0 && fileio->sync_data(fd) == 0 &&
        fileio->sync_dir(dir_fd) == 0)
        return fd;
    int error_number = errno;
    close(fd);
    fileio->unlink_at(dir_fd, COMMIT_LOG_NAME);
    errno = error_number;
    return -1;
}

struct commit_log *commit_log_create(int dir_fd, uint64_t store_seed)
{
    struct commit_log *log = malloc(sizeof *log);
    if (!log)
        return NULL;
    memset(log->header, 0, sizeof log->header);
    log->store_seed = store_seed;
    log->epoch = random_secret();
    commit_log_restart(log);
    log->fd = make_log_file(dir_fd);
    if (log->fd >= 0)
        return log;
    int error_number = errno;
    free(log);
    errno = error_number;
    return NULL;
}

void commit_log_free(struct commit_log *log)
{
    if (!log)
        return;
    close(log->fd);
    free(log);
}

bool commit_log_has_room(const struct commit_log *log)
{
    KV_ASSERT(log->tail >= COMMIT_HEADER_BYTES && log->tail <= COMMIT_LOG_BYTES);
    return COMMIT_LOG_BYTES - log->tail >= GROUP_BYTES;
}

bool commit_log_add(struct commit_log *log, const struct logfile *file, uint64_t offset,
                    uint64_t size)
{
    uint64_t entry_bytes = commit_entry_size(size);
    uint64_t place = log->tail + log->group_bytes;
    KV_ASSERT(offset >= FILE_HEADER_BYTES && offset + size <= file->allocated_bytes);
    KV_ASSERT(place <= COMMIT_LOG_BYTES && log->group_bytes <= GROUP_BYTES);
    if (entry_bytes > GROUP_BYTES - log->group_bytes)
        return false;
    uint8_t *at = log->group + log->group_bytes;
    uint8_t *content = at + COMMIT_ENTRY_BYTES;
    if (file->map)
        memcpy(content, file->map + offset, size);
    else if (fileio->read_at(file->fd, content, size, (off_t)offset) != (ssize_t)size)
        return false;
    if (logfile_is_broken(file)) /* zeros may have been copied */
        return false;
    struct commit_entry entry = {file->identity.number, (uint32_t)size, file->identity.salt,
                                 offset};
    commit_entry_write(at, &entry, log->epoch, place);
    log->group_bytes += entry_bytes;
    return true;
}

/* The header of a new epoch and its first group may get to the disk in any order: nobody relies on
 * either before the sync has returned. */
int commit_log_write(struct commit_log *log)
{
    if (log->header_is_due && fileio->write_at(log->fd, log->header, sizeof log->header, 0) < 0)
        return -1;
    return fileio->write_at(log->fd, log->group, log->group_bytes, (off_t)log->tail) < 0 ? -1 : 0;
}

int commit_log_sync(struct commit_log *log)
{
    if (fileio->sync_data(log->fd) != 0)
        return -1;
    log->header_is_due = false;
    log->tail += log->group_bytes;
    log->group_bytes = 0;
    return 0;
}

void commit_log_restart(struct commit_log *log)
{
    log->epoch++;
    commit_header_write(log->header, log->store_seed, log->epoch);
    log->header_is_due = true;
    log->tail = COMMIT_HEADER_BYTES;
    log->group_bytes = 0;
}
