/*
 * file_ring: numbers of data files, first in, first out. A file is in a queue at most once, so that
 * one with room forevery file is never full.
 *
 * Threads: none of its own; the owner's lock covers it.
 */
#ifndef MQKV_KVSTORE_CORE_FILE_RING_H
#define MQKV_KVSTORE_CORE_FILE_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct file_ring {
    uint32_t *numbers; /* a ring */
    uint32_t capacity;
    uint32_t head;
    uint32_t count;
};

/* Empty. false: out of memory. One that is zeroed may be freed. */
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

/* The file is not in the queue. */
static inline void file_ring_push(struct file_ring *queue, uint32_t number)
{
    queue->numbers[(queue->head + queue->count) % queue->capacity] = number;
    queue->count++;
}

/* The queue is not empty, here and below. */
static inline uint32_t file_ring_first(const struct file_ring *queue)
{
    return queue->numbers[queue->head];
}

static inline uint32_t file_ring_pop(struct file_ring *queue)
{
    uint32_t number = file_ring_first(queue);
    queue->head = (queue->head + 1) % queue->capacity;
    queue->count--;
    return number;
}

#endif
