#include "clientk/pipeline/pipeline_state.h"

#include <stdlib.h>

#include "clientk/base/last_error.h"
#include "clientk/message/translate.h"
#include "common/assert/assert.h"
#include "common/report/error.h"

struct task *pipeline_take_task(struct clientk_pipeline *pipeline)
{
    if (!pipeline->free_tasks) {
        struct task_slab *slab = malloc(sizeof *slab);
        if (!slab)
            return NULL;
        slab->next = pipeline->slabs;
        pipeline->slabs = slab;
        for (unsigned i = 0; i < SLAB_TASKS; i++) {
            slab->tasks[i].next = pipeline->free_tasks;
            pipeline->free_tasks = &slab->tasks[i];
        }
    }
    struct task *task = pipeline->free_tasks;
    pipeline->free_tasks = task->next;
    pipeline->pending++;
    return task;
}

void pipeline_give_back_task(struct clientk_pipeline *pipeline, struct task *task)
{
    KV_ASSERT(pipeline->pending > 0);
    task->next = pipeline->free_tasks;
    pipeline->free_tasks = task;
    pipeline->pending--;
}

void pipeline_free_tasks(struct clientk_pipeline *pipeline)
{
    while (pipeline->slabs) {
        struct task_slab *slab = pipeline->slabs;
        pipeline->slabs = slab->next;
        free(slab);
    }
}

void pipeline_complete(struct task_queue *queue, struct task *task, const struct outcome *outcome)
{
    struct clientk_pipeline *pipeline = (struct clientk_pipeline *)queue;
    KV_ASSERT(pipeline->pending > 0);
    if (outcome->result) {
        translate_result(outcome->result, outcome->values,
                         operation_gives_value(task->operation.opcode), &pipeline->result);
    } else {
        /* The sentence is the server's, or else what the thread's last error says of that
         * status. */
        struct kv_error *error = last_error_of_thread();
        if (outcome->sentence.size > 0)
            kv_error_set(error, outcome->status, "server refused: %.*s",
                         (int)outcome->sentence.size, (const char *)outcome->sentence.data);
        if (pipeline->status == KV_OK) {
            pipeline->status = outcome->status;
            pipeline->error = *error;
            last_error_explain(&pipeline->error, outcome->status);
        }
        result_clear(&pipeline->result, outcome->status);
    }
    void *tag = task->target;
    pipeline_give_back_task(pipeline, task);
    pipeline->completing = true;
    pipeline->complete(pipeline->context, tag, &pipeline->result);
    pipeline->completing = false;
}

void pipeline_take_back(struct clientk_pipeline *pipeline, struct task *task)
{
    struct task_queue *due = &pipeline->due;
    struct task **link = &due->first, *before = NULL;
    while (*link != task) {
        before = *link;
        link = &before->next;
    }
    *link = task->next;
    if (due->last == task)
        due->last = before;
    free(task->own_bytes);
    pipeline_give_back_task(pipeline, task);
}
