/*
 * queue_take: what a look at a queue does beside claiming jobs.
 *
 * Threads: one at a time for each queue.
 */
#ifndef MQKV_CLIENTK_QUEUE_QUEUE_TAKE_H
#define MQKV_CLIENTK_QUEUE_QUEUE_TAKE_H

#include "clientk/queue/queue_state.h"

/* Moves what has become due to the ends of its lanes. *next_ms becomes the time of the next moment,
 * if that is earlier. */
enum kv_status queue_promote_due(struct clientk_queue *queue, uint64_t now_ms, uint64_t *next_ms);

/* Reads up to `count` (at most 64) records of the lane, from number `from` on, into
 * queue->look.results. */
enum kv_status queue_look_at(struct clientk_queue *queue, unsigned lane, uint64_t from,
                             size_t count);

/* Reads the lowest numbers of the lanes that the entry "heads" tells, if they are higher than what
 * is known; writes them, if they have got much higher. */
enum kv_status queue_read_heads(struct clientk_queue *queue);
enum kv_status queue_tell_heads(struct clientk_queue *queue);

#endif
