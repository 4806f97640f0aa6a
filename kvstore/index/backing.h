/*
 * backing: the address space of an arena (arena.h), and the memory in it: of a shared-memory object
 * that other processes map too, or of this process alone. Both lie at the same offsets, and a range
 * may be of the one kind while its neighbour is of the other.
 *
 * No memory is touched before it is allocated, so that a full file system of shared memory is an
 * error here and never a SIGBUS.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_KVSTORE_INDEX_BACKING_H
#define MQKV_KVSTORE_INDEX_BACKING_H

#include <stdbool.h>
#include <stdint.h>

struct backing {
    char *base;          /* aligned to BACKING_LARGE_PAGE_BYTES */
    uint64_t bytes;      /* of address space; a multiple of BACKING_LARGE_PAGE_BYTES */
    uint64_t file_bytes; /* size of the object */
    int fd;              /* of the object; -1: there is none */
};

#define BACKING_LARGE_PAGE_BYTES (UINT64_C(2) << 20)

/* Reserves max_bytes of address space, or less where its limit (ulimit -v) is low. With an object
 * `fd` (-1: none), whose size is taken as it is, all of the space shows the object. False, errno:
 * there is too little address space; the descriptor stays the caller's. */
bool backing_reserve(struct backing *backing, int fd, uint64_t max_bytes);

/* Shows the object in that range. Parts that are not allocated yet must not be touched: the object
 * may end before them. False, errno: out of memory. */
bool backing_show(const struct backing *backing, uint64_t offset, uint64_t bytes);

/* Gives the address space back, and closes the object. */
void backing_release(struct backing *backing);

/* Allocates a range of the object, which grows if it ends before the range does. The range is zeros
 * if it was never allocated or was dropped. False, errno: there is no room, and nothing has
 * changed, except that a part of the range may have been allocated. */
bool backing_allocate(struct backing *backing, uint64_t offset, uint64_t bytes);

/* Gives the memory of a range of the object back; the range reads as zeros. */
void backing_drop(const struct backing *backing, uint64_t offset, uint64_t bytes);

/* Puts zeros that are this process's own in that range (false: out of memory); takes them away
 * again. */
bool backing_own(const struct backing *backing, uint64_t offset, uint64_t bytes);
void backing_disown(const struct backing *backing, uint64_t offset, uint64_t bytes);

/* Asks for large pages in a range that consists of whole ones; `own`: of this process's own memory.
 * */
void backing_want_large_pages(const struct backing *backing, uint64_t offset, uint64_t bytes,
                              bool own);

#endif
