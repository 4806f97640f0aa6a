#include "kvstore/log/fileio.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory/machine_sizes.h"
#include "common/memory/whole_io.h"

/* O_NONBLOCK, since a FIFO of the name would keep the caller waiting for its other end. */
static int system_open_at(int dir_fd, const char *name, int flags, mode_t mode)
{
    int fd;
    do {
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NONBLOCK, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static int system_punch(int fd, off_t size)
{
    int result;
    do {
        result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size);
    } while (result != 0 && errno == EINTR);
    return result;
}

static int system_truncate(int fd, off_t size)
{
    int result;
    do {
        result = ftruncate(fd, size);
    } while (result != 0 && errno == EINTR);
    return result;
}

static ssize_t system_read_at(int fd, void *data, size_t size, off_t offset)
{
    return whole_read(fd, data, size, offset, 1);
}

/* A read that ends within a page ends with the file: to continue from there would be EINVAL. */
static ssize_t system_read_direct_at(int fd, void *data, size_t size, off_t offset)
{
    return whole_read(fd, data, size, offset, PAGE_BYTES);
}

static ssize_t system_write_at(int fd, const void *data, size_t size, off_t offset)
{
    return whole_write(fd, data, size, offset) ? (ssize_t)size : -1;
}

#define ZEROS_BYTES (128u << 10)

/* Not const, so that the zeros take no place in the program's file, and one page of memory. */
static char zeros[ZEROS_BYTES];

static int system_zero(int fd, size_t size, off_t offset)
{
    size_t done = 0;
    for (size_t piece; done < size; done += piece) {
        piece = size - done < sizeof zeros ? size - done : sizeof zeros;
        if (system_write_at(fd, zeros, piece, offset + (off_t)done) < 0)
            return -1;
    }
    return 0;
}

static int system_allocate(int fd, off_t offset, off_t size)
{
    int result;
    do {
        result = fallocate(fd, 0, offset, size);
    } while (result != 0 && errno == EINTR);
    if (result == 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return result;
    struct stat status;
    off_t end = offset + size;
    if (fstat(fd, &status) != 0)
        return -1;
    return end > status.st_size ? system_zero(fd, (size_t)(end - status.st_size), status.st_size)
                                : 0;
}

static int system_rename_at(int dir_fd, const char *from, const char *to)
{
    return renameat(dir_fd, from, dir_fd, to);
}

static int system_exchange_at(int dir_fd, const char *one, const char *other)
{
    return renameat2(dir_fd, one, dir_fd, other, RENAME_EXCHANGE);
}

static int system_unlink_at(int dir_fd, const char *name)
{
    return unlinkat(dir_fd, name, 0);
}

static void *system_map(size_t size, int protection, int fd)
{
    return mmap(NULL, size, protection, protection & PROT_WRITE ? MAP_SHARED : MAP_PRIVATE, fd, 0);
}

static int system_populate(void *at, size_t size)
{
    int result;
    do {
        result = madvise(at, size, MADV_POPULATE_WRITE);
    } while (result != 0 && errno == EINTR);
    return result;
}

static void system_forget(int fd, void *at, size_t size, off_t offset)
{
    if (at) /* all of the mapping, since the kernel maps more pages around one that is touched */
        madvise(at, size, MADV_DONTNEED);
    posix_fadvise(fd, offset, 0, POSIX_FADV_DONTNEED);
}

#define BOOT_ID_BYTES 16u

static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;
static uint8_t boot_id[BOOT_ID_BYTES];

static void read_boot_id(void)
{
    static const char hex[] = "0123456789abcdef";
    char text[64] = "";
    int fd = system_open_at(AT_FDCWD, FILEIO_BOOT_ID_PATH, O_RDONLY, 0);
    if (fd < 0)
        return;
    if (system_read_at(fd, text, sizeof text - 1, 0) > 0) {
        unsigned digits = 0;
        for (const char *at = text; *at != '\0' && digits < 2 * BOOT_ID_BYTES; at++) {
            const char *digit = strchr(hex, *at);
            if (!digit)
                continue;
            boot_id[digits / 2] = (uint8_t)(boot_id[digits / 2] << 4 | (digit - hex));
            digits++;
        }
        if (digits < 2 * BOOT_ID_BYTES)
            memset(boot_id, 0, sizeof boot_id);
    }
    close(fd);
}

static void system_boot_id(uint8_t id[16])
{
    pthread_once(&boot_id_once, read_boot_id);
    memcpy(id, boot_id, sizeof boot_id);
}

const struct fileio fileio_system = {
    .open_at = system_open_at,
    .allocate = system_allocate,
    .truncate = system_truncate,
    .punch = system_punch,
    .read_at = system_read_at,
    .read_direct_at = system_read_direct_at,
    .write_at = system_write_at,
    .zero = system_zero,
    .sync_data = fdatasync,
    .sync_dir = fsync,
    .rename_at = system_rename_at,
    .exchange_at = system_exchange_at,
    .unlink_at = system_unlink_at,
    .map = system_map,
    .unmap = munmap,
    .populate = system_populate,
    .forget = system_forget,
    .boot_id = system_boot_id,
};

const struct fileio *fileio = &fileio_system;
