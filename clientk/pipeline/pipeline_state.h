/*
 * pipeline_state: the inside of a pipeline and its tasks, for the calls that wait (pipeline.c) and
 * those that do not (event_loop.c).
 *
 * Threads: as the pipeline.
 */
#ifndef MQKV_CLIENTK_PIPELINE_PIPELINE_STATE_H
#define MQKV_CLIENTK_PIPELINE_PIPELINE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/base/client_settings.h"
#include "clientk/message/task.h"
#include "clientk/message/window.h"
#include "mqkv/clientk.h"

struct event_loop;
struct pipeline_list;

/* Tasks that are allocated together. */
#define SLAB_TASKS 64u

struct task_slab {
    struct task_slab *next;
    struct task tasks[SLAB_TASKS];
};

struct clientk_pipeline {
    struct task_queue due; /* first: tasks to be packed; nearly always none without an event loop */
    struct client_settings settings;
    unsigned fork_generation;
    struct window window;
    struct inflight_message *filling; /* NULL: none */
    uint32_t batch_limit;             /* operations in a message at most; 0: as many as fit */
    clientk_complete complete;
    void *context;
    struct clientk_result result; /* the argument of complete */
    bool completing;              /* complete is running */
    enum kv_status status;        /* the first one that stopped an operation since the last flush */
    struct kv_error error;        /* the sentence of `status` */
    size_t pending;               /* operations that were submitted and are not complete */
    struct task_slab *slabs;
    struct task *free_tasks;
    struct event_loop *events; /* NULL: the calls of the pipeline wait */

    /* Guarded by handles_lock. */
    struct pipeline_list *list; /* NULL: its handle was closed */
    struct clientk_pipeline *next;
};

/* Returns a task for one operation, which is pending until the task is given back. NULL: no
 * memory. */
struct task *pipeline_take_task(struct clientk_pipeline *pipeline);

/* Takes back a task of pipeline_take_task. */
void pipeline_give_back_task(struct clientk_pipeline *pipeline, struct task *task);

/* Frees all tasks of the pipeline. */
void pipeline_free_tasks(struct clientk_pipeline *pipeline);

/* The `complete` of the pipeline's queue: calls pipeline->complete. */
void pipeline_complete(struct task_queue *queue, struct task *task, const struct outcome *outcome);

/* Returns true if the task, which was submitted last, is due still. */
static inline bool pipeline_is_due(const struct clientk_pipeline *pipeline, const struct task *task)
{
    return pipeline->due.first && pipeline->due.last == task;
}

/* Takes the task, which is due, off the queue, and back as pipeline_give_back_task does. */
void pipeline_take_back(struct clientk_pipeline *pipeline, struct task *task);

#endif
