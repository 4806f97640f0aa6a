#include "clientk/request.h"

#include "clientk/translate.h"

enum kv_status request_operation(const struct request *request, size_t index,
                                 uint64_t max_value_bytes, struct wire_operation *operation)
{
    if (request->special) {
        *operation = *request->special;
    } else {
        enum kv_status status = translate_operation(&request->operations[index], operation);
        if (status != KV_OK)
            return status;
    }
    return translate_check(operation, max_value_bytes);
}

enum wire_opcode request_opcode(const struct request *request, size_t index)
{
    return request->special ? request->special->opcode
                            : (enum wire_opcode)request->operations[index].opcode;
}

static bool refused(const struct request *request, size_t index)
{
    return request->results[index].status == KV_BUFFER_TOO_SMALL;
}

bool request_due(struct request *request, size_t *index, bool *again)
{
    while (request->redo < request->redo_end && !refused(request, request->redo))
        request->redo++;
    *again = request->redo < request->redo_end;
    *index = *again ? request->redo : request->next;
    return *index < request->count;
}

void request_advance(struct request *request, bool again)
{
    if (again)
        request->redo++;
    else
        request->next++;
}

static void due_again(struct request *request, size_t index)
{
    if (request->redo >= request->redo_end) {
        request->redo = index;
        request->redo_end = index + 1;
        request->redo_bytes = 0;
    }
    if (index < request->redo)
        request->redo = index;
    if (index >= request->redo_end)
        request->redo_end = index + 1;
}

void request_rewind(struct request *request, size_t index, bool again, bool uncertain)
{
    if (uncertain && index >= request->uncertain_end)
        request->uncertain_end = index + 1;
    if (again)
        due_again(request, index);
    else if (index < request->next)
        request->next = index;
}

void request_refused(struct request *request, size_t index, uint64_t value_bytes)
{
    due_again(request, index);
    request->redo_bytes += value_bytes;
}

void request_finish_if_done(struct request *request)
{
    size_t index;
    bool again;
    if (!request->finished && !request_due(request, &index, &again)) {
        request->finished = true;
        request->status = KV_OK;
    }
}

static bool writes(const struct request *request, size_t index)
{
    struct wire_operation operation;
    return request_operation(request, index, UINT64_MAX, &operation) == KV_OK &&
           operation_writes(&operation);
}

enum kv_status request_not_executed(struct request *request, size_t index, enum kv_status status)
{
    if (index < request->uncertain_end && writes(request, index))
        status = KV_OUTCOME_UNKNOWN;
    result_clear(&request->results[index], status);
    return status;
}

void request_restart(struct request *request)
{
    request->next = 0;
    request->redo = 0;
    request->redo_end = 0;
    request->finished = false;
    request->status = KV_OK;
}

void request_stop(struct request *request, enum kv_status status, enum kv_status status_of_rest)
{
    size_t index;
    bool again;
    while (request_due(request, &index, &again)) {
        if (request_not_executed(request, index, status_of_rest) == KV_OUTCOME_UNKNOWN)
            status = KV_OUTCOME_UNKNOWN;
        request_advance(request, again);
    }
    request->finished = true;
    request->status = status;
}
