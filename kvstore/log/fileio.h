/*
 * fileio: every system call that changes a file, or that can fail for want of space, memory or a
 * sound disk, behind one table, so that a test can make the Nth allocation, write, sync, rename,
 * ... fail (tests/support/fault.h replaces entries). Nothing in kvstore/ makes these calls past the
 * table; calls that only ask (fstat, flock, readdir, mincore) and close are made directly.
 *
 * The entries follow the conventions of the calls that they are named after: -1 and errno. They
 * retry after EINTR, except sync_*, where the state after any failure is unknown.
 */
#ifndef MQKV_KVSTORE_LOG_FILEIO_H
#define MQKV_KVSTORE_LOG_FILEIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the system tells which boot it is: 32 hexadecimal digits, and hyphens. */
#define FILEIO_BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

struct fileio {
    /* openat with O_CLOEXEC, which never waits for the other end of a FIFO. */
    int (*open_at)(int dir_fd, const char *name, int flags, mode_t mode);

    /* Gives the file disk blocks for the range, and at least the size offset + size. Bytes that are
     * there keep their contents, the rest reads as zeros. Where the file system has no fallocate,
     * zeros are written after the file's end (holes before the end then stay holes). */
    int (*allocate)(int fd, off_t offset, off_t size);

    int (*truncate)(int fd, off_t size);

    /* Frees the blocks of the first `size` bytes, which then read as zeros; the size stays. */
    int (*punch)(int fd, off_t size);

    /* Reads `size` bytes, or as many as there are up to the end of the file. Returns how many, or
     * -1. */
    ssize_t (*read_at)(int fd, void *data, size_t size, off_t offset);

    /* Reads past the page cache, from a file opened with O_DIRECT: data, size and offset are
     * multiples of PAGE_BYTES. Sees what was written by write_at. EINVAL: the file system has no
     * such reads, or only of larger pieces. */
    ssize_t (*read_direct_at)(int fd, void *data, size_t size, off_t offset);

    /* Writes `size` bytes and returns `size`, or -1; then any part may have been written. */
    ssize_t (*write_at)(int fd, const void *data, size_t size, off_t offset);

    /* Brings in the pages of a range that is allocated and reads as zeros, by writing zeros, up to
     * 128 KiB per call: on file systems that have folios of many pages, the pages come in such
     * folios, which cost the kernel less than half of what single pages cost, now and when they are
     * freed. 0, or -1: then some pages may be there. Contents stay. */
    int (*zero)(int fd, size_t size, off_t offset);

    int (*sync_data)(int fd); /* fdatasync */
    int (*sync_dir)(int dir_fd);
    int (*rename_at)(int dir_fd, const char *from, const char *to);
    /* Gives each of two files the other's name, at once. EINVAL: the file system cannot do it. */
    int (*exchange_at)(int dir_fd, const char *one, const char *other);
    int (*unlink_at)(int dir_fd, const char *name);

    /* Maps `size` bytes from offset 0 on, MAP_SHARED if `protection` has PROT_WRITE, else
     * MAP_PRIVATE. MAP_FAILED on failure. */
    void *(*map)(size_t size, int protection, int fd);
    int (*unmap)(void *at, size_t size);

    /* Brings in the pages of a writable mapping, as if each were written to, in one call: a third
     * of the time that single faults take. -1 and errno: then some pages may be there; EINVAL where
     * the kernel does not know the call (Linux before 5.14). Contents stay. */
    int (*populate)(void *at, size_t size);

    /* Drops from memory the clean pages of the file from `offset` on (a multiple of the page size),
     * so that they are read from the disk when they are needed next. `at` is the file's only
     * mapping in this process (NULL: there is none), of which `size` bytes may have been touched:
     * mapped pages would stay, as those do that other processes map. Does nothing where the file
     * system cannot do it (one without a disk cannot). */
    void (*forget)(int fd, void *at, size_t size, off_t offset);

    /* The number of the boot that the machine is in, which differs from boot to boot; zeros: the
     * system does not tell. The number is read once. */
    void (*boot_id)(uint8_t id[16]);
};

/* The table in use. Replaced only by tests, before a store is opened or between calls. */
extern const struct fileio *fileio;

/* The table that calls the operating system. */
extern const struct fileio fileio_system;

#endif
