#include "kvstore/index/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* An index takes at most this part of a limit of the address space: the data files are mapped,
 * too. */
#define LIMIT_SHARE 4u

#define MIN_RESERVED_BYTES (8 * BACKING_LARGE_PAGE_BYTES)

/* Headers of the C library before 2.35 do not know it. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static uint64_t affordable(uint64_t max_bytes)
{
    struct rlimit limit;
    uint64_t bytes = max_bytes;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur / LIMIT_SHARE < bytes)
        bytes = limit.rlim_cur / LIMIT_SHARE;
    if (bytes < MIN_RESERVED_BYTES)
        bytes = MIN_RESERVED_BYTES;
    return bytes / BACKING_LARGE_PAGE_BYTES * BACKING_LARGE_PAGE_BYTES;
}

/* Reserves aligned address space: what is reserved too much for that is given back. */
static char *reserve_aligned(uint64_t bytes)
{
    uint64_t room = bytes + BACKING_LARGE_PAGE_BYTES;
    char *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    uint64_t before = -(uintptr_t)at % BACKING_LARGE_PAGE_BYTES;
    if (before > 0)
        munmap(at, before);
    munmap(at + before + bytes, BACKING_LARGE_PAGE_BYTES - before);
    return at + before;
}

bool backing_show(const struct backing *backing, uint64_t offset, uint64_t bytes)
{
    return mmap(backing->base + offset, bytes, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED | MAP_NORESERVE, backing->fd, (off_t)offset) != MAP_FAILED;
}

bool backing_reserve(struct backing *backing, int fd, uint64_t max_bytes)
{
    struct stat facts = {.st_size = 0};
    *backing = (struct backing){.fd = -1};
    if (fd >= 0 && fstat(fd, &facts) != 0)
        return false;
    uint64_t bytes = affordable(max_bytes);
    while (!(backing->base = reserve_aligned(bytes)) && bytes > MIN_RESERVED_BYTES)
        bytes = bytes / 2 / BACKING_LARGE_PAGE_BYTES * BACKING_LARGE_PAGE_BYTES;
    if (!backing->base)
        return false;
    backing->bytes = bytes;
    backing->file_bytes = (uint64_t)facts.st_size;
    backing->fd = fd;
    if (fd < 0 || (backing->file_bytes <= bytes && backing_show(backing, 0, bytes)))
        return true;
    if (backing->file_bytes > bytes)
        errno = ENOMEM;
    int reason = errno;
    munmap(backing->base, bytes);
    *backing = (struct backing){.fd = -1};
    errno = reason;
    return false;
}

void backing_release(struct backing *backing)
{
    if (backing->base)
        munmap(backing->base, backing->bytes);
    if (backing->fd >= 0)
        close(backing->fd);
    *backing = (struct backing){.fd = -1};
}

bool backing_allocate(struct backing *backing, uint64_t offset, uint64_t bytes)
{
    int result;
    do
        result = fallocate(backing->fd, 0, (off_t)offset, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0)
        return false;
    if (offset + bytes > backing->file_bytes)
        backing->file_bytes = offset + bytes;
    return true;
}

void backing_drop(const struct backing *backing, uint64_t offset, uint64_t bytes)
{
    fallocate(backing->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

bool backing_own(const struct backing *backing, uint64_t offset, uint64_t bytes)
{
    return mmap(backing->base + offset, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void backing_disown(const struct backing *backing, uint64_t offset, uint64_t bytes)
{
    if (backing->fd >= 0 && backing_show(backing, offset, bytes))
        return;
    void *reserved = mmap(backing->base + offset, bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    (void)reserved; /* what could not be given back stays, unused */
}

void backing_want_large_pages(const struct backing *backing, uint64_t offset, uint64_t bytes,
                              bool own)
{
    madvise(backing->base + offset, bytes, own ? MADV_HUGEPAGE : MADV_COLLAPSE);
}
