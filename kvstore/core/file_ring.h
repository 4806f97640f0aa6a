/*
 * file_ring: a queue of data files' numbers, first in, first out. A file stands in a queue at most
 * once, so that a queue with room for every file is never full.
 *
 * Threads: none of its own; the owner's lock covers a queue.
 */
#ifndef MQKV_KVSTORE_CORE_FILE_RING_H
#define MQKV_KVSTORE_CORE_FILE_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/assert/assert.h"

struct file_ring {
    uint32_t *numbers; /* a ring */
    uint32_t capacity;
    uint32_t head;
    uint32_t count;
};

/* Makes `queue` empty, with room for `datafiles` numbers. False: out of memory; `queue` may be
 * freed all the same, as may one that is zeroed. */
static inline bool file_ring_init(struct file_ring *queue, uint32_t datafiles)
{
    queue->numbers = calloc(datafiles, sizeof *queue->numbers);
    queue->capacity = datafiles;
    queue->head = queue->count = 0;
    return queue->numbers != NULL;
}

static inline void file_ring_free(struct file_ring *queue)
{
    free(queue->numbers);
}

/* Adds file `number`, which is not in the queue, at its end. */
static inline void file_ring_push(struct file_ring *queue, uint32_t number)
{
    KV_ASSERT(queue->count < queue->capacity && number < queue->capacity);
    queue->numbers[(queue->head + queue->count) % queue->capacity] = number;
    queue->count++;
}

/* The first file of a queue that is not empty. */
static inline uint32_t file_ring_first(const struct file_ring *queue)
{
    KV_ASSERT(queue->count > 0);
    return queue->numbers[queue->head];
}

/* Returns the same number, and takes it out. */
static inline uint32_t file_ring_pop(struct file_ring *queue)
{
    uint32_t number = file_ring_first(queue);
    queue->head = (queue->head + 1) % queue->capacity;
    queue->count--;
    return number;
}

#endif
