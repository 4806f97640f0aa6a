/*
 * task: one operation of a caller, from its submission to its completion. A task is either due, and
 * waits in the queue of its owner, or it is in a message in flight (window.h). It is completed
 * exactly once. A task that must be sent again returns to the front of its queue, so that the
 * operations of a queue are sent in order.
 *
 * Threads: a queue and its tasks belong to one thread at a time.
 */
#ifndef MQKV_CLIENTK_MESSAGE_TASK_H
#define MQKV_CLIENTK_MESSAGE_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/base/large_values.h"
#include "common/assert/assert.h"
#include "mqkv/status.h"
#include "wire/operation.h"

struct task_queue;

struct task {
    struct task *next; /* in its queue */
    struct task_queue *queue;
    struct wire_operation operation;
    void *target; /* the owner's: says where the result goes */
    uint64_t
        value_bytes;   /* size of the value that it reads, as the server has told; 0: not known */
    uint64_t key_hash; /* with a window of several messages: key_set_hash of its key */
    uint64_t deadline_ms; /* the owner's: until when it may be due; 0: as long as the owner waits */
    void *own_bytes;      /* the task's copy of key and value; NULL: they are borrowed */
    bool uncertain;       /* a write that was sent before and may have been executed then */
};

/* How a task has ended. */
struct outcome {
    enum kv_status status;
    const struct wire_result *result;  /* NULL: the task was stopped without a result */
    const struct large_values *values; /* with a result: the segment that may have its value */
    struct kv_slice sentence;          /* of a server that refused; may be empty */
};

struct task_queue {
    struct task *first, *last;
    /* True: key and value of a task are borrowed until the task is packed; then the message has
     * them, and a task that returns to the queue gets a copy. False: they are borrowed until the
     * task is completed. */
    bool lent_until_packed;
    /* Called when `task` is complete, once for each task, which then belongs to its owner again. It
     * must not touch the window. */
    void (*complete)(struct task_queue *queue, struct task *task, const struct outcome *outcome);
};

/* Adds the task behind all others of the queue. */
static inline void task_queue_push(struct task_queue *queue, struct task *task)
{
    task->next = NULL;
    if (queue->first)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
}

/* Adds the task before all others of the queue. */
static inline void task_queue_push_front(struct task_queue *queue, struct task *task)
{
    task->next = queue->first;
    if (!queue->first)
        queue->last = task;
    queue->first = task;
}

/* Takes the first task off the queue, which is not empty. */
static inline struct task *task_queue_pop(struct task_queue *queue)
{
    struct task *task = queue->first;
    KV_ASSERT(task && task->queue == queue);
    queue->first = task->next;
    return task;
}

/* Completes the task, which cannot be sent, with a result that has only a status: `status`, or
 * KV_OUTCOME_UNKNOWN if the task may have been executed before. */
void task_answer(struct task *task, enum kv_status status);

/* Completes the task without a result: it was not executed this time, because of `status`, which
 * becomes KV_OUTCOME_UNKNOWN if the task may have been executed before. */
void task_stop(struct task *task, enum kv_status status);

/* Like task_stop, with the sentence of the server. */
void task_refuse(struct task *task, enum kv_status status, struct kv_slice sentence);

/* Frees the task's copy of its key and value. */
void task_free_bytes(struct task *task);

/* Completes the task with `outcome`, whether it was executed or not. */
static inline void task_complete(struct task *task, const struct outcome *outcome)
{
    if (task->own_bytes)
        task_free_bytes(task);
    task->queue->complete(task->queue, task, outcome);
}

/* Stops all tasks of the queue, as task_stop does. */
void task_queue_stop(struct task_queue *queue, enum kv_status status);

/* Gives the task a copy of its key and value. False: no memory. */
bool task_own_bytes(struct task *task);

#endif
