/*
 * call: what one call of a thread asks for: a queue of tasks (task.h), whose results go to the
 * caller, and the progress made. It lives on the stack of its thread, which waits until the call is
 * finished; meanwhile the leader of the combiner (combiner.h) works on it.
 */
#ifndef MQKV_CLIENTK_COMBINING_CALL_H
#define MQKV_CLIENTK_COMBINING_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/clientk.h"
#include "clientk/message/task.h"
#include "mqkv/error.h"

struct call {
    struct task_queue queue; /* first: what is due */
    size_t unfinished;       /* tasks that were not completed yet */
    enum kv_status status;   /* KV_OK, or the error that stopped it */
    bool sent;               /* some of it was packed into a message */
    uint64_t deadline_ms;
    struct kv_error *error; /* of the calling thread */

    /* While it waits in a combiner. */
    struct call *following;
    _Atomic uint32_t turn; /* turn.h */
    unsigned sleeper;      /* number of its thread in the combiner: says where it sleeps */
};

/* The `complete` of a call's queue. */
void call_complete_task(struct task_queue *queue, struct task *task, const struct outcome *outcome);

/* A call without tasks. */
static inline void call_init(struct call *call, uint64_t deadline_ms, struct kv_error *error)
{
    call->queue.first = NULL;
    call->queue.lent_until_packed = false;
    call->queue.complete = call_complete_task;
    call->unfinished = 0;
    call->status = KV_OK;
    call->sent = false;
    call->deadline_ms = deadline_ms;
    call->error = error;
}

/* Adds the task, of which only the operation is filled in. The result goes to *result. The task,
 * its key and its value stay until the call is finished. */
static inline void call_add(struct call *call, struct task *task, struct clientk_result *result)
{
    task->queue = &call->queue;
    task->target = result;
    task->value_bytes = 0;
    task->own_bytes = NULL;
    task->uncertain = false;
    task_queue_push(&call->queue, task);
    call->unfinished++;
}

static inline bool call_finished(const struct call *call)
{
    return call->unfinished == 0;
}

/* Stops the tasks that are due, unless the call is finished. Their results get status_of_rest,
 * which must say that they were not executed, or KV_OUTCOME_UNKNOWN where they may have been; the
 * call gets status, or KV_OUTCOME_UNKNOWN. */
void call_stop(struct call *call, enum kv_status status, enum kv_status status_of_rest);

/* Stops the tasks that are due of a call that was stopped in part. */
void call_settle(struct call *call);

#endif
