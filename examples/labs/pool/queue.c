#include "queue.h"

void queue_init(struct queue *queue, unsigned capacity)
{
    pthread_mutex_init(&queue->mutex, NULL);
    queue->capacity = capacity;
}

void queue_destroy(struct queue *queue)
{
    pthread_mutex_destroy(&queue->mutex);
}

/* Yours: a queue that is always closed keeps no promise. */

bool queue_put(struct queue *queue, void *item)
{
    (void)queue, (void)item;
    return false;
}

bool queue_take(struct queue *queue, void **item)
{
    (void)queue, (void)item;
    return false;
}

void queue_close(struct queue *queue)
{
    (void)queue;
}
