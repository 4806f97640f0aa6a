/*
 * time_tree: the jobs of a queue that wait for a time. A *moment* is 16 ms of the host's clock; the
 * entry time:MOMENT counts its records due:MOMENT:N, and a tree of bitmaps (10 bits of the number
 * of a moment a level) says which moments there are, so that the next one is four reads away.
 *
 * Threads: one at a time for each queue.
 */
#ifndef MQKV_CLIENTK_QUEUE_TIME_TREE_H
#define MQKV_CLIENTK_QUEUE_TIME_TREE_H

#include "clientk/queue/queue_state.h"

struct time_node *time_nodes_new(void);
void time_nodes_free(struct time_node *nodes);

/* What there is at a moment: records due:MOMENT:head to tail - 1. */
struct time_moment {
    uint64_t number;
    uint64_t head, tail;
    uint64_t version; /* of the entry; 0: it is absent */
};

/* Returns the first moment at which everything that is due at due_ms is due. */
uint64_t time_moment_of(uint64_t due_ms);
uint64_t time_of_moment(uint64_t number);

/* Finds the first moment from `from` on. *found: whether there is one. KV_CORRUPT: a node makes no
 * sense, or too many say that there are moments below where there are none. */
enum kv_status time_find(struct clientk_queue *queue, uint64_t from, bool *found, uint64_t *number);

/* Reads the first moment from `number` on that has room for `count` more records: more than
 * QUEUE_MOST_DUE come later. KV_OVERLOADED: a thousand moments are full. */
enum kv_status time_read_room(struct clientk_queue *queue, uint64_t number, size_t count,
                              struct time_moment *moment);

/* Reads the entry of the moment. KV_OK, also if it is absent; KV_CORRUPT: it makes no sense, or the
 * store cannot read it. */
enum kv_status time_read_moment(struct clientk_queue *queue, uint64_t number,
                                struct time_moment *moment);

/* Returns the key of a record of the moment. */
struct kv_slice time_due_key(struct queue_plan *plan, uint64_t moment, uint64_t number);

/* The calls below add to queue->plan. First time_change_begin, then what changes, then
 * time_change_end, which guards and writes the nodes of the tree. */
void time_change_begin(struct clientk_queue *queue);
void time_change_end(struct clientk_queue *queue);

/* Guards *moment, adds the records at its end, and enters it into the tree if it was absent. */
enum kv_status time_append(struct clientk_queue *queue, struct time_moment *moment,
                           const struct job_record *records, size_t count);

/* Guards *moment, whose first `count` records leave it; the last one takes the moment with it. What
 * becomes of their entries is the caller's. */
enum kv_status time_remove(struct clientk_queue *queue, const struct time_moment *moment,
                           size_t count);

/* The tree forgets a moment: one whose entry is absent, as only somebody who deletes entries of the
 * queue leaves it (in a transaction of its own), or, as part of the plan, one whose entry cannot be
 * read, which stays. */
enum kv_status time_forget(struct clientk_queue *queue, uint64_t number);
enum kv_status time_leave(struct clientk_queue *queue, uint64_t number);

/* The key of the entry of a moment. */
struct kv_slice time_moment_key(struct queue_plan *plan, uint64_t number);

#endif
