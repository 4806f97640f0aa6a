/*
 * memory_segment: memory that only grows, like sbrk(2)'s, but any number of segments beside each
 * other: ranges of SEGMENT_RANGE_BYTES of anonymous memory, of which pages are taken when they are
 * touched. What does not fit in the rest of a range starts a new one, and that rest is not used
 * again; it is not counted either. Ranges may touch, and what is taken one after the other from one
 * range does.
 */
#ifndef MQKV_LAB_ALLOCATOR_MEMORY_SEGMENT_H
#define MQKV_LAB_ALLOCATOR_MEMORY_SEGMENT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_RANGE_BYTES ((size_t)64 << 20)

/* {.mutex = PTHREAD_MUTEX_INITIALIZER} is an empty segment. */
struct segment {
    pthread_mutex_t mutex; /* covers what follows */
    char *next;            /* of the newest range: where the unused part begins */
    char *end;
    uint64_t bytes; /* taken so far */
};

/* Takes `bytes`, a multiple of 16: zeroed, aligned to 16. NULL with errno ENOMEM. Any thread. */
void *segment_grow(struct segment *segment, size_t bytes);

uint64_t segment_bytes(struct segment *segment);

#endif
