/*
 * backing: the address space of an arena (arena.h), and the memory in it: of a shared-memory object
 * that other processes map too, or of this process alone. Either lies at the same offsets, and a
 * range may be of the one kind while its neighbour is of the other.
 *
 * Nothing is touched before it is allocated, so that a full file system of shared memory is an
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
    uint64_t bytes;      /* of address space; a multiple of the same */
    uint64_t file_bytes; /* size of the object */
    int fd;              /* of the object; -1: there is none */
};

#define BACKING_LARGE_PAGE_BYTES (UINT64_C(2) << 20)

/* Reserves address space: max_bytes, or less where its limit (ulimit -v) is low. With an object,
 * whose size is taken as it is, all of it shows the object. False, errno: there is too little; the
 * descriptor stays the caller's. */
bool backing_reserve(struct backing *backing, int fd, uint64_t max_bytes);

/* Shows the object in that place. What is not allocated yet must not be touched: the object may end
 * before. False, errno: out of memory. */
bool backing_show(const struct backing *backing, uint64_t offset, uint64_t bytes);

/* Gives all back, and closes the object. */
void backing_release(struct backing *backing);

/* Allocates a part of the object, which grows if it ends before. Zeros, if it was never allocated
 * or was dropped. False, errno: there is no room, and nothing has changed but that some of it may
 * have been allocated. */
bool backing_allocate(struct backing *backing, uint64_t offset, uint64_t bytes);

/* Gives the memory of a part of the object back; it reads as zeros. */
void backing_drop(const struct backing *backing, uint64_t offset, uint64_t bytes);

/* Puts zeros that are this process's own in that place; false: out of memory. And takes them away
 * again. */
bool backing_own(const struct backing *backing, uint64_t offset, uint64_t bytes);
void backing_disown(const struct backing *backing, uint64_t offset, uint64_t bytes);

/* Asks for large pages for a part that consists of whole ones. */
void backing_want_large_pages(const struct backing *backing, uint64_t offset, uint64_t bytes,
                              bool own);

#endif
