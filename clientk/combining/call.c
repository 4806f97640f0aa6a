#include "clientk/combining/call.h"

#include "clientk/message/translate.h"
#include "common/error.h"

static void note_stop(struct call *call, const struct outcome *outcome)
{
    if (call->status == KV_OK || outcome->status == KV_OUTCOME_UNKNOWN)
        call->status = outcome->status;
    if (outcome->sentence.size > 0 && call->status == outcome->status)
        kv_error_set(call->error, outcome->status, "server refused: %.*s",
                     (int)outcome->sentence.size, (const char *)outcome->sentence.data);
}

static void complete(struct task_queue *queue, struct task *task, const struct outcome *outcome)
{
    struct call *call = (struct call *)queue;
    struct clientk_result *result = task->target;
    if (outcome->result) {
        translate_result(outcome->result, outcome->values,
                         operation_gives_value(task->operation.opcode), result);
    } else {
        result_clear(result, outcome->status);
        note_stop(call, outcome);
    }
    call->unfinished--;
}

void call_init(struct call *call, uint64_t deadline_ms, struct kv_error *error)
{
    call->queue.first = NULL;
    call->queue.lent_until_packed = false;
    call->queue.complete = complete;
    call->unfinished = 0;
    call->status = KV_OK;
    call->sent = false;
    call->deadline_ms = deadline_ms;
    call->error = error;
}

void call_add(struct call *call, struct task *task, struct clientk_result *result)
{
    task->queue = &call->queue;
    task->target = result;
    task->value_bytes = 0;
    task->own_bytes = NULL;
    task->uncertain = false;
    task_queue_push(&call->queue, task);
    call->unfinished++;
}

void call_stop(struct call *call, enum kv_status status, enum kv_status status_of_rest)
{
    if (call_finished(call))
        return;
    if (call->status == KV_OK)
        call->status = status;
    task_queue_stop(&call->queue, status_of_rest);
}

void call_settle(struct call *call)
{
    enum kv_status status = call->status;
    if (status == KV_OUTCOME_UNKNOWN)
        status = KV_NO_SERVER;
    else if (status == KV_TIMEOUT)
        status = KV_DEADLINE;
    if (status != KV_OK)
        task_queue_stop(&call->queue, status);
}
