/*
 * allocator: memory for values of any size, from one of three allocators behind one interface.
 * Usable alone (build/liballocator.a): it knows nothing of stores.
 *
 *   system        the C library's malloc, or what stands in for it (LD_PRELOAD)
 *   locked        best fit over one free list, behind one mutex
 *   thread-local  best fit over a free list a thread, without a lock
 *
 * The last two are those of a published study (Duke University, ECE 650, assignment 2, "thread-safe
 * malloc"): a doubly linked free list in order of address, searched for the smallest block that
 * fits (the lowest of equals), which is split; a freed block joins its free neighbours. A list of n
 * blocks costs a walk of up to n for each allocation and each release. They are here to be measured
 * and compared: for speed take `system`.
 *
 * As in the study, with `thread-local` a block that is freed joins the list of the thread that
 * frees it, wherever it was allocated, and neighbours that are free in different lists never merge.
 * That is what makes it grow beyond `locked`. Not as in the study, a thread that ends loses
 * nothing: its list joins a common one, which the next thread that finds no fit in its own takes
 * over whole before it asks for more memory.
 *
 * Both grow a segment of their own, never past what was in use at one time and its fragments, and
 * give nothing back to the system until the process ends (lab/allocator/memory_segment.h).
 *
 * Blocks are aligned to 16 bytes, and each costs 16 bytes beside its own, rounded up to 16; the
 * smallest takes 32. Zero bytes give a block like any other. What cannot be had gives NULL with
 * errno ENOMEM and changes nothing. A pointer that is not of a live block of that allocator (freed
 * twice, another allocator's) ends the process with a message where it is recognised.
 *
 * Threads: every call may be made by any number of threads, and in a child after fork(2). A child
 * never sees again what was free in the lists of its parent's other threads.
 */
#ifndef MQKV_ALLOCATOR_H
#define MQKV_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* public in the installed liballocator.a */

struct allocator_statistics {
    uint64_t segment_bytes; /* asked of the system so far; of `system`: held now, as malloc says */
    uint64_t free_bytes;    /* of those: in free blocks, their headers included */
    uint64_t free_blocks;   /* 0 where it is not known (`system`) */
};

/* One of the three. All state is the process's: two users of `locked` share its list. */
struct allocator {
    const char *name;
    void *(*allocate)(size_t bytes);
    void (*release)(void *block); /* NULL is harmless; errno is kept */
    void (*statistics)(struct allocator_statistics *statistics);

    /* Returns true if the free lists are in order of address, coalesced, and what their counts say:
     * for tests. Of `thread-local` the caller's list and the common one, which no other thread
     * changes meanwhile. `system`: true. */
    bool (*is_sound)(void);
};

extern const struct allocator kv_allocator_system;
extern const struct allocator kv_allocator_locked;
extern const struct allocator kv_allocator_thread_local;

/* malloc(3), free, calloc and realloc on the free list behind a mutex. */
void *kv_locked_malloc(size_t bytes);
void kv_locked_free(void *block);
void *kv_locked_calloc(size_t count, size_t bytes);
void *kv_locked_realloc(void *block, size_t bytes);

/* The same on the free list of the calling thread. */
void *kv_local_malloc(size_t bytes);
void kv_local_free(void *block);
void *kv_local_calloc(size_t count, size_t bytes);
void *kv_local_realloc(void *block, size_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
