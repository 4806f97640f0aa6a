#include "kvstore/log/commit_replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/memory/machine_sizes.h"
#include "common/report/error.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/fileio.h"

/* -1 and errno: the file cannot be read. */
static int read_commit_log(struct commit_replay *replay, int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return -1;
    if (!S_ISREG(facts.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    replay->size = at_most((uint64_t)facts.st_size, COMMIT_LOG_BYTES);
    if (replay->size <= COMMIT_HEADER_BYTES)
        return 0;
    replay->bytes = malloc(replay->size);
    if (!replay->bytes)
        return -1;
    ssize_t got = fileio->read_at(fd, replay->bytes, replay->size, 0);
    replay->size = got > 0 ? (uint64_t)got : 0;
    return got < 0 ? -1 : 0;
}

enum kv_status commit_replay_load(struct commit_replay *replay, int dir_fd, uint64_t store_seed,
                                  struct kv_error *error)
{
    *replay = (struct commit_replay){.bytes = NULL};
    int fd = fileio->open_at(dir_fd, COMMIT_LOG_NAME, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0 && errno == ENOENT)
        return KV_OK;
    int result = fd < 0 ? -1 : read_commit_log(replay, fd);
    enum kv_status status = KV_OK;
    if (result != 0)
        status = kv_error_set_errno(error, COMMIT_LOG_NAME
                                    ": cannot read the file, which may hold the last writes");
    if (fd >= 0)
        close(fd);
    if (status != KV_OK || replay->size <= COMMIT_HEADER_BYTES ||
        !commit_header_read(replay->bytes, store_seed, &replay->epoch))
        commit_replay_free(replay);
    return status;
}

void commit_replay_free(struct commit_replay *replay)
{
    free(replay->bytes);
    *replay = (struct commit_replay){.bytes = NULL};
}

/* The content of the next entry of that data file from *place on, which is moved behind the entry.
 * NULL: there is no further entry. */
static const uint8_t *next_content(const struct commit_replay *replay, uint32_t number,
                                   uint64_t salt, uint64_t *place, struct commit_entry *entry)
{
    while (*place < replay->size) {
        const uint8_t *at = replay->bytes + *place;
        if (!commit_entry_read(at, replay->size - *place, replay->epoch, *place, entry))
            return NULL;
        *place += commit_entry_size(entry->size);
        if (entry->number == number && entry->salt == salt && entry->offset >= FILE_HEADER_BYTES)
            return at + COMMIT_ENTRY_BYTES;
    }
    return NULL;
}

/* Returns true if the entry lies within a file of file_bytes bytes. No entry is written that does
 * not. */
static bool entry_lies_within(const struct commit_entry *entry, uint64_t file_bytes)
{
    return entry->size <= file_bytes && entry->offset <= file_bytes - entry->size;
}

/* Writes also what the file has already: the kernel may take a page for written that the disk has
 * refused before. */
static int write_entries(const struct commit_replay *replay, const struct logfile *log)
{
    struct commit_entry entry;
    const uint8_t *content;
    bool any = false;
    for (uint64_t place = COMMIT_HEADER_BYTES;
         (content = next_content(replay, log->identity.number, log->identity.salt, &place, &entry));
         any = true)
        if (entry_lies_within(&entry, log->allocated_bytes) &&
            fileio->write_at(log->fd, content, entry.size, (off_t)entry.offset) < 0)
            return -1;
    return any ? logfile_sync(log) : 0;
}

static int patch_mapping(uint8_t *map, uint64_t offset, const uint8_t *content, uint64_t size)
{
    uint64_t from = offset / PAGE_BYTES * PAGE_BYTES;
    uint64_t span = offset + size - from;
    if (mprotect(map + from, span, PROT_READ | PROT_WRITE) != 0)
        return -1;
    memcpy(map + offset, content, size);
    return mprotect(map + from, span, PROT_READ);
}

int commit_replay_patch(const struct commit_replay *replay, uint32_t number, uint64_t salt,
                        uint8_t *map, uint64_t size)
{
    struct commit_entry entry;
    const uint8_t *content;
    for (uint64_t place = COMMIT_HEADER_BYTES;
         (content = next_content(replay, number, salt, &place, &entry));)
        if (entry_lies_within(&entry, size) &&
            memcmp(map + entry.offset, content, entry.size) != 0 &&
            patch_mapping(map, entry.offset, content, entry.size) != 0)
            return -1;
    return 0;
}

enum kv_status commit_replay_apply(const struct commit_replay *replay, struct logfile *log,
                                   struct kv_error *error)
{
    if (!replay->bytes)
        return KV_OK;
    KV_ASSERT(log->writable || log->map);
    int result = log->writable
                     ? write_entries(replay, log)
                     : commit_replay_patch(replay, log->identity.number, log->identity.salt,
                                           log->map, log->allocated_bytes);
    if (result == 0)
        return KV_OK;
    return kv_error_set_errno(error, "%s: cannot bring in what " COMMIT_LOG_NAME " has of it",
                              file_name(log->identity.number, FILE_LOG).text);
}
