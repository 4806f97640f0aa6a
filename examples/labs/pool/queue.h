/*
 * queue: a bounded queue between threads that put and threads that take.
 *
 * You may change the members of the struct, and nothing else in this file.
 */
#ifndef LAB_QUEUE_H
#define LAB_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

#define QUEUE_MOST 16

struct queue {
    pthread_mutex_t mutex;
    unsigned capacity;
};

/* Makes an empty queue of `capacity` places: 1 .. QUEUE_MOST. */
void queue_init(struct queue *queue, unsigned capacity);

/* Ends a queue that nobody waits for. */
void queue_destroy(struct queue *queue);

/* Puts an item behind the others; waits, asleep, while the queue is full. False: the queue is
 * closed, and the item was not put. */
bool queue_put(struct queue *queue, void *item);

/* Takes the first item; waits, asleep, while there is none. False: it is closed and empty. */
bool queue_take(struct queue *queue, void **item);

/* From now on nothing is put. What is there may be taken still; all who wait and have nothing to
 * wait for any more are woken. */
void queue_close(struct queue *queue);

#endif
