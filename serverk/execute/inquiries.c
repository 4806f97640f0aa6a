#include "serverk/execute/execution_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory/copy.h"
#include "serverk/execute/scan_page.h"

/* What was too big for the largest place gets another that is large enough; writers may make it
 * grow in between. */
#define SCAN_TRIES 3u

static bool overlap(const void *a, const void *b, size_t size)
{
    uintptr_t from = (uintptr_t)a, to = (uintptr_t)b;
    return from < to ? to - from < size : from - to < size;
}

void add_answer(struct execution *execution, struct kv_slice bytes)
{
    struct wire_result *result = &execution->result;
    struct reply_place place = reply_place(execution->reply, bytes.size);
    if (place.kind != PLACE_NONE) {
        if (overlap(place.at, bytes.data, bytes.size))
            memmove(place.at, bytes.data, bytes.size);
        else
            copy_bytes(place.at, bytes.data, bytes.size);
        result->value = kv_slice(NULL, bytes.size);
        if (reply_add_placed(execution->reply, result, &place))
            return;
    }
    result->status = KV_BUFFER_TOO_SMALL;
    result_tell_size(result, bytes.size);
    add_plain(execution);
}

void execute_scan(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    struct wire_result *result = &execution->result;
    struct scan_page page;
    struct reply_place place = reply_largest_place(execution->reply);
    result->status = scan_page_fill(&page, execution->store, operation, execution->session->access,
                                    &execution->allowance, place.at, place.capacity);
    for (unsigned i = 0; i < SCAN_TRIES && result->status == KV_BUFFER_TOO_SMALL; i++) {
        place = reply_place(execution->reply, page.refused_bytes);
        if (place.kind == PLACE_NONE)
            break;
        result->status =
            scan_page_fill(&page, execution->store, operation, execution->session->access,
                           &execution->allowance, place.at, place.capacity);
    }
    size_t used = write_cursor_used(&page.cursor);
    if (result->status == KV_BUFFER_TOO_SMALL) {
        result_tell_size(result, page.refused_bytes);
    } else if (result->status == KV_OK || page.bad_offset != 0) {
        if (page.bad_offset != 0)
            result_tell_version(result, page.bad_offset);
        result_tell_number(result, (int64_t)page.next);
        result->value = kv_slice(NULL, used);
        if (reply_add_placed(execution->reply, result, &place))
            return;
        *result = (struct wire_result){.status = KV_BUFFER_TOO_SMALL}; /* as for GET */
        result_tell_size(result, used);
    }
    add_plain(execution);
}

void execute_stats(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    char *text = NULL;
    size_t size = 0;
    const struct execution_context *context = execution->context;
    result->status =
        context->write_stats(context->stats_context, execution->operation->key, &text, &size);
    if (result->status == KV_OK)
        add_answer(execution, kv_slice(text, size));
    else
        add_plain(execution);
    free(text);
}

void execute_ping(struct execution *execution)
{
    execution->result.status = take_request_value(execution);
    if (execution->result.status == KV_OK)
        add_answer(execution, execution->value);
    else
        add_plain(execution);
}

/* A refusal has its sentence as the value. */
void execute_admin(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    const struct execution_context *context = execution->context;
    struct admin_call call = {.command = execution->operation->key, .session = execution->session};
    result->status = take_request_value(execution);
    if (result->status != KV_OK) {
        add_plain(execution);
        return;
    }
    call.argument = execution->value;
    result->status = context->run_admin(context->admin_context, &call);
    if (call.size > 0)
        add_answer(execution, kv_slice(call.text, call.size));
    else
        add_plain(execution);
    free(call.text);
}
