#include "clientk/pipeline/pipeline_state.h"

#include <stdlib.h>

#include "clientk/message/translate.h"

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

/* A task of the pipeline is over: its submitter is told. */
void pipeline_complete(struct task_queue *queue, struct task *task, const struct outcome *outcome)
{
    struct clientk_pipeline *pipeline = (struct clientk_pipeline *)queue;
    if (outcome->result) {
        translate_result(outcome->result, outcome->values,
                         operation_gives_value(task->operation.opcode), &pipeline->result);
    } else {
        if (pipeline->status == KV_OK)
            pipeline->status = outcome->status;
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
    struct task *before = due->first == task ? NULL : due->first;
    while (before && before->next != task)
        before = before->next;
    if (before)
        before->next = NULL;
    else
        due->first = NULL;
    due->last = before;
    free(task->own_bytes);
    pipeline_give_back_task(pipeline, task);
}
