/*
 * task: one operation of a caller, from its submission to its completion. It is due in the queue of its
 * owner, or in flight in a message (window.h), until it is completed, once. What must be sent again
 * goes back to the front of its queue, so that the operations of a queue are sent in their order.
 *
 * Threads: a queue and its tasks belong to one thread at a time.
 */
#ifndef MQKV_CLIENTK_MESSAGE_TASK_H
#define MQKV_CLIENTK_MESSAGE_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/base/large_values.h"
#include "mqkv/status.h"
#include "wire/operation.h"

struct task_queue;

struct task {
    struct task *next; /* in its queue */
    struct task_queue *queue;
    struct wire_operation operation;
    void *target; /* the owner's: where the result goes */
    uint64_t
        value_bytes;   /* size of the value that it reads, once the server has told; 0: not known */
    uint64_t key_hash; /* set where a window has several messages */
    void *own_bytes; /* memory of the task's own that has key and value; NULL: they are borrowed */
    bool uncertain;  /* a write that was sent before and may have been executed then */
};

/* How a task ended. */
struct outcome {
    enum kv_status status;
    const struct wire_result *result;  /* NULL: it was stopped, and has none */
    const struct large_values *values; /* with a result: the segment that its value may be in */
    struct kv_slice sentence;          /* of a server that refused; may be empty */
};

struct task_queue {
    struct task *first, *last;
    /* Key and value of a task are the caller's until it is packed, and the message's from then on; a task
     * that goes back to the queue gets a copy. False: they stay the caller's until it is completed. */
    bool lent_until_packed;
    /* Called once for each task, which is then the owner's again; it must not touch the window. */
    void (*complete)(struct task_queue *queue, struct task *task, const struct outcome *outcome);
};

static inline void task_queue_push(struct task_queue *queue, struct task *task)
{
    task->next = NULL;
    if (queue->first)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
}

static inline void task_queue_push_front(struct task_queue *queue, struct task *task)
{
    task->next = queue->first;
    if (!queue->first)
        queue->last = task;
    queue->first = task;
}

/* Takes the first one off the queue, which is not empty. */
static inline struct task *task_queue_pop(struct task_queue *queue)
{
    struct task *task = queue->first;
    queue->first = task->next;
    return task;
}

/* Completes the task with a result that is nothing but a status. */
void task_answer(struct task *task, enum kv_status status);

/* Completes the task without a result: it was not executed this time, for which the status is the
 * reason; KV_OUTCOME_UNKNOWN, if it may have been executed before. */
void task_stop(struct task *task, enum kv_status status);

/* As task_stop, with what the server said. */
void task_refuse(struct task *task, enum kv_status status, struct kv_slice sentence);

/* Frees the task's copy of its key and value. */
void task_free_bytes(struct task *task);

/* Completes the task, which may have been executed just now. */
static inline void task_complete(struct task *task, const struct outcome *outcome)
{
    if (task->own_bytes)
        task_free_bytes(task);
    task->queue->complete(task->queue, task, outcome);
}

/* Stops all that is due. */
void task_queue_stop(struct task_queue *queue, enum kv_status status);

/* Gives the task a copy of its key and value. False: no memory. */
bool task_own_bytes(struct task *task);

#endif
