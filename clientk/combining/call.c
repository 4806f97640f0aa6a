#include "clientk/combining/call.h"

#include "clientk/message/translate.h"
#include "common/report/error.h"

static void note_stop(struct call *call, const struct outcome *outcome)
{
    if (call->status == KV_OK || outcome->status == KV_OUTCOME_UNKNOWN)
        call->status = outcome->status;
    if (outcome->sentence.size > 0 && call->status == outcome->status)
        kv_error_set(call->error, outcome->status, "server refused: %.*s",
                     (int)outcome->sentence.size, (const char *)outcome->sentence.data);
}

void call_complete_task(struct task_queue *queue, struct task *task, const struct outcome *outcome)
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
