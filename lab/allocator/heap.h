/*
 * heap: what an allocator keeps for all threads of the process: a free list behind a mutex, and the
 * segment that it takes new memory from. Usable in a child after fork(2).
 */
#ifndef MQKV_LAB_ALLOCATOR_HEAP_H
#define MQKV_LAB_ALLOCATOR_HEAP_H

#include <pthread.h>
#include <stdbool.h>

#include "lab/allocator/freelist.h"
#include "lab/allocator/memory_segment.h"

struct heap {
    pthread_mutex_t mutex; /* covers the list; taken before the segment's */
    struct free_list list;
    struct segment segment;
    void (*in_child)(void); /* after a fork in the child, both mutexes held; NULL: nothing to do */
    struct heap *next;      /* watched for forks */
};

#define HEAP_INITIALIZER                                                                     \
    {                                                                                        \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .segment = {.mutex = PTHREAD_MUTEX_INITIALIZER } \
    }

/* From now on, no fork comes between two steps of a thread that holds one of the heap's mutexes:
 * the forking thread holds them. To be called once for each heap, by a constructor; the heap lives
 * forever. in_child: called in the child of a fork; NULL: nothing. */
void heap_watch_forks(struct heap *heap, void (*in_child)(void));

/* As struct allocator's is_sound, of the list. */
bool heap_is_sound(struct heap *heap);

#endif
