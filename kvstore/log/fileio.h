/*
 * fileio: every system call that changes a file, or that can fail for want of space, memory or a
 * sound disk, behind one table, so that a test can make the Nth allocation, write, sync, rename,
 * ... fail (tests/support/fault.h replaces entries). Nothing in kvstore/ makes these calls past the
 * table; what only asks (fstat, flock, readdir, mincore, close) is called directly.
 *
 * Conventions of the entries are those of the calls they are named after: -1 and errno. EINTR is
 * retried inside, but for sync_*, where the state after any failure is unknown.
 */
#ifndef MQKV_KVSTORE_LOG_FILEIO_H
#define MQKV_KVSTORE_LOG_FILEIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the system tells which boot it is: 32 hexadecimal digits, and hyphens. */
#define FILEIO_BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

struct fileio {
    /* openat with O_CLOEXEC; never waits for the other end of a FIFO. */
    int (*open_at)(int dir_fd, const char *name, int flags, mode_t mode);

    /* Gives the file disk blocks for the range, and at least the size offset + size; what is there
     * keeps its contents, the rest reads as zeros. Where the file system has no fallocate, zeros
     * are written after the file's end (holes before it then stay holes). */
    int (*allocate)(int fd, off_t offset, off_t size);

    int (*truncate)(int fd, off_t size);

    /* Frees the blocks of the first `size` bytes, which then read as zeros; the size stays. */
    int (*punch)(int fd, off_t size);

    /* All of size, or as much as there is to the end of the file, or -1. */
    ssize_t (*read_at)(int fd, void *data, size_t size, off_t offset);

    /* The same past the page cache, of a file opened with O_DIRECT: data, size and offset are
     * multiples of PAGE_BYTES. What was written by write_at is seen. EINVAL: the file system has no
     * such reads, or none of so small pieces. */
    ssize_t (*read_direct_at)(int fd, void *data, size_t size, off_t offset);

    /* All of size, or -1; then any part may have been written. */
    ssize_t (*write_at)(int fd, const void *data, size_t size, off_t offset);

    /* Brings the pages of a range in that is allocated and reads as zeros, by writing zeros, up to
     * 128 KiB per call: then they come, on file systems that have such, in folios of many pages,
     * which cost the kernel less than half of what single ones do, now and when they are freed. 0,
     * or -1: then some may be there. Contents stay. */
    int (*zero)(int fd, size_t size, off_t offset);

    int (*sync_data)(int fd); /* fdatasync */
    int (*sync_dir)(int dir_fd);
    int (*rename_at)(int dir_fd, const char *from, const char *to);
    /* Each gets the other's name, at once. EINVAL: the file system cannot do it. */
    int (*exchange_at)(int dir_fd, const char *one, const char *other);
    int (*unlink_at)(int dir_fd, const char *name);

    /* From offset 0; MAP_FAILED. MAP_SHARED if PROT_WRITE is asked for, else MAP_PRIVATE. */
    void *(*map)(size_t size, int protection, int fd);
    int (*unmap)(void *at, size_t size);

    /* Brings the pages of a writable mapping in, as if each were written to, in one go: a third of
     * the time that faults take one by one. -1 and errno, then some may be there: EINVAL where the
     * kernel does not know it (Linux before 5.14). Contents stay. */
    int (*populate)(void *at, size_t size);

    /* Drops from memory what is there of the file from offset on (a multiple of the page size) and
     * not dirty, so that it is read from the disk when it is needed next. `at` is the file's one
     * only mapping here (NULL: it has none), of which `size` bytes may have been touched: mapped
     * pages would stay, as those do that other processes map. Where the file system supports it
     * (one without a disk does not). */
    void (*forget)(int fd, void *at, size_t size, off_t offset);

    /* A number of the boot that the machine is in, another after each; zeros: the system does not
     * tell. It is read once. */
    void (*boot_id)(uint8_t id[16]);
};

/* The table in use. Replaced only by tests, before a store is opened or between calls. */
extern const struct fileio *fileio;

/* The table that calls the operating system. */
extern const struct fileio fileio_system;

#endif
