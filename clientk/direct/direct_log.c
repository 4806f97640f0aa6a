#include "clientk/direct/direct_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/format/file_name.h"

/* The size of the largest log: an offset in the index has 32 bits, in units of 8 bytes. */
#define LOG_MAX_BYTES (UINT64_C(1) << 35)

/* The address space that a mapping takes at least. */
#define FIRST_MAP_BYTES (UINT64_C(1) << 20)

/* Opens the file that *facts describe. -1 with errno; ENOENT: it is not there now. */
static int open_log_file(int dir_fd, const struct direct_log_facts *facts, uint64_t *file_bytes)
{
    struct stat is;
    struct file_name name = file_name(facts->file, FILE_LOG);
    int fd = openat(dir_fd, name.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    if (fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_dev == facts->device &&
        is.st_ino == facts->inode) {
        *file_bytes = (uint64_t)is.st_size;
        return fd;
    }
    close(fd);
    errno = ENOENT;
    return -1;
}

/* Maps the file, with room for it to grow. False with errno. */
static bool map_log_file(struct direct_log *log, int fd, uint64_t file_bytes)
{
    log->map_bytes = FIRST_MAP_BYTES;
    while (log->map_bytes < file_bytes + file_bytes / 2 && log->map_bytes < LOG_MAX_BYTES)
        log->map_bytes *= 2;
    void *at = mmap(NULL, log->map_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED)
        return false;
    log->map = at;
    log->guard = mapguard_add(at, log->map_bytes);
    return true;
}

static uint64_t log_usable_bytes(const struct direct_log *log, uint64_t file_bytes)
{
    uint64_t limit = log->map ? log->map_bytes : LOG_MAX_BYTES;
    return file_bytes < limit ? file_bytes : limit;
}

static void release_log(struct direct_retired *retired)
{
    direct_log_close((struct direct_log *)retired);
}

struct direct_log *direct_log_open(int dir_fd, const struct direct_log_facts *facts, bool map)
{
    uint64_t file_bytes;
    struct direct_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    log->retired.release = release_log;
    log->file = facts->file;
    log->generation = facts->generation;
    log->salt = facts->salt;
    log->fd = open_log_file(dir_fd, facts, &file_bytes);
    if (log->fd < 0 || (map && !map_log_file(log, log->fd, file_bytes))) {
        int failure = errno;
        direct_log_close(log);
        errno = failure;
        return NULL;
    }
    if (map) {
        close(log->fd);
        log->fd = -1;
    }
    atomic_init(&log->usable_bytes, log_usable_bytes(log, file_bytes));
    return log;
}

/* Finds out how large the file is now. False: it is gone. */
static bool find_log_bytes(const struct direct_log *log, int dir_fd,
                           const struct direct_log_facts *facts, uint64_t *file_bytes)
{
    struct stat is;
    if (log->fd >= 0) {
        bool known = fstat(log->fd, &is) == 0;
        *file_bytes = known ? (uint64_t)is.st_size : 0;
        return known;
    }
    int fd = open_log_file(dir_fd, facts, file_bytes);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool direct_log_extend(struct direct_log *log, int dir_fd, const struct direct_log_facts *facts)
{
    uint64_t file_bytes;
    if (!find_log_bytes(log, dir_fd, facts, &file_bytes))
        return false;
    uint64_t usable = log_usable_bytes(log, file_bytes);
    atomic_store_explicit(&log->usable_bytes, usable, memory_order_release);
    return usable == file_bytes;
}

void direct_log_close(struct direct_log *log)
{
    if (!log)
        return;
    struct verified_bitmap *verified = atomic_load(&log->verified);
    if (verified)
        verified_bitmap_free(verified);
    free(verified);
    mapguard_remove(log->guard);
    if (log->map)
        munmap((void *)(uintptr_t)log->map, log->map_bytes);
    if (log->fd >= 0)
        close(log->fd);
    free(log);
}

struct verified_bitmap *direct_log_verified(struct direct_log *log)
{
    struct verified_bitmap *verified = atomic_load(&log->verified);
    if (verified)
        return verified;
    struct verified_bitmap *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    verified_bitmap_init(made, log->map_bytes);
    if (atomic_compare_exchange_strong(&log->verified, &verified, made))
        return made;
    verified_bitmap_free(made);
    free(made);
    return verified;
}
