#include "clientk/message/task.h"

#include <stdlib.h>
#include <string.h>

void task_free_bytes(struct task *task)
{
    free(task->own_bytes);
    task->own_bytes = NULL;
}

void task_answer(struct task *task, enum kv_status status)
{
    struct wire_result result = {.status = task->uncertain ? KV_OUTCOME_UNKNOWN : status};
    struct outcome outcome = {.status = result.status, .result = &result};
    task_complete(task, &outcome);
}

void task_refuse(struct task *task, enum kv_status status, struct kv_slice sentence)
{
    struct outcome outcome = {.status = task->uncertain ? KV_OUTCOME_UNKNOWN : status,
                              .sentence = sentence};
    task_complete(task, &outcome);
}

void task_stop(struct task *task, enum kv_status status)
{
    task_refuse(task, status, kv_slice(NULL, 0));
}

void task_queue_stop(struct task_queue *queue, enum kv_status status)
{
    while (queue->first)
        task_stop(task_queue_pop(queue), status);
}

bool task_own_bytes(struct task *task)
{
    struct kv_slice key = task->operation.key, value = task->operation.value;
    uint8_t *bytes = malloc(key.size + value.size + 1); /* not 0, for which malloc may give NULL */
    if (!bytes)
        return false;
    if (key.size > 0)
        memcpy(bytes, key.data, key.size);
    if (value.size > 0)
        memcpy(bytes + key.size, value.data, value.size);
    task->operation.key.data = bytes;
    task->operation.value.data = bytes + key.size;
    free(task->own_bytes);
    task->own_bytes = bytes;
    return true;
}
