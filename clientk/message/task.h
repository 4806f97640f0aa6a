/*
 * task: one operation of a caller, from its submission to its completion. It waits in its owner's
 * queue, where it is due, or is in a message in flight (window.h), until it is completed, exactly
 * once. A task that must be sent again returns to the front of its queue, so that the operations of
 * a queue are sent in order.
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
    void *target; /* the owner's: says where the result goes */
    uint64_t
        value_bytes;   /* size of the value that it reads, once the server has told; 0: not known */
    uint64_t key_hash; /* set where a window has several messages */
    uint64_t deadline_ms; /* the owner's: how long it may be due; 0: as long as the owner waits */
    void *own_bytes;      /* the task's copy of key and value; NULL: they are borrowed */
    bool uncertain;       /* a write that was sent before and may have been executed then */
};

/* How a task ended. */
struct outcome {
    enum kv_status status;
    const struct wire_result *result;  /* NULL: it was stopped without one */
    const struct large_values *values; /* with a result: the segment that its value may be in */
    struct kv_slice sentence;          /* of a server that refused; may be empty */
};

struct task_queue {
    struct task *first, *last;
    /* Key and value of a task belong to the caller until the task is packed, and to the message
     * from then on; a task that returns to the queue gets a copy. False: they stay the caller's
     * until the task is completed. */
    bool lent_until_packed;
    /* Completion: called once per task, which then belongs to its owner again. It must not touch
     * the window. */
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

/* Completes the task, which cannot be sent, with a result that has a status only. It gets
 * KV_OUTCOME_UNKNOWN if it may have been executed before. */
void task_answer(struct task *task, enum kv_status status);

/* Completes the task without a result: it was not executed this time, for the reason that status
 * gives. It gets KV_OUTCOME_UNKNOWN if it may have been executed before. */
void task_stop(struct task *task, enum kv_status status);

/* As task_stop, with the server's sentence. */
void task_refuse(struct task *task, enum kv_status status, struct kv_slice sentence);

/* Frees the task's copy of its key and value. */
void task_free_bytes(struct task *task);

/* Completes the task, whether it was executed or not. */
static inline void task_complete(struct task *task, const struct outcome *outcome)
{
    if (task->own_bytes)
        task_free_bytes(task);
    task->queue->complete(task->queue, task, outcome);
}

/* Stops all tasks of the queue. */
void task_queue_stop(struct task_queue *queue, enum kv_status status);

/* Gives the task a copy of its key and value. False: no memory. */
bool task_own_bytes(struct task *task);

#endif
