/* TRANSACT: several keys change together, or none (kvstore_transact). */
#include "common/assert/assert.h"
#include "serverk/execute/execution.h"
#include "serverk/execute/execution_internal.h"
#include "serverk/execute/transact_body.h"
#include "serverk/session/access.h"

/* A TRANSACT under way; the values that it has read are in context->found. */
struct transact_request {
    struct execution *execution;
    size_t found_used;
    struct transact_body body;
};

/* Decoding ------------------------------------------------------------------------------------- */

/* Finds the operation's value as bytes that nobody else changes: those in a segment are copied. */
static enum kv_status take_transaction(struct execution *execution)
{
    struct execution_context *context = execution->context;
    enum kv_status status = take_request_value(execution);
    size_t size = execution->value.size;
    if (status != KV_OK || !(execution->operation->flags & WIRE_VALUE_IN_SEGMENT) ||
        execution->value.data == context->incoming)
        return status;
    KV_ASSERT(size <= context->buffer_bytes);
    copy_bytes(context->incoming, execution->value.data, size);
    execution->value.data = context->incoming;
    if (size > context->incoming_used)
        context->incoming_used = size;
    return session_segment_is_broken(execution->session) ? KV_IO : KV_OK;
}

/* What may be done ----------------------------------------------------------------------------- */

/* The rights of both lists, whichever is done: a refusal tells nothing of what the keys have. */
static enum kv_status check_rights(struct transact_request *request)
{
    struct access_user *user = request->execution->session->access;
    if (!user)
        return KV_OK;
    for (unsigned i = 0; i < request->body.counts.guards; i++) {
        enum kv_status status = access_check_key(user, request->body.guards[i].key, false);
        if (status != KV_OK)
            return transact_body_blame_guard(&request->body, i, status);
    }
    for (unsigned i = 0; i < transact_body_steps(&request->body); i++) {
        const struct kvstore_step *step = &request->body.steps[i];
        enum kv_status status = access_check_key(user, step->key, transact_step_writes(step));
        if (status != KV_OK)
            return transact_body_blame_step(&request->body, i, status);
    }
    return KV_OK;
}

/* Returns the size of the value of the step's key, if that matters. */
static uint64_t size_of_value(const struct transact_request *request,
                              const struct kvstore_step *step)
{
    bool reads = step->kind == KVSTORE_STEP_GET && request->body.writes;
    if (!reads && step->kind != KVSTORE_STEP_APPEND && step->kind != KVSTORE_STEP_TOUCH)
        return 0;
    struct kvstore_entry entry = {0};
    enum kv_status status = kvstore_get(request->execution->store, step->key, NULL, 0, &entry);
    return status == KV_OK ? entry.value_bytes : 0;
}

/* Looks at the values that one list reads and writes anew, before it holds a lock. KV_LIMIT: it
 * would make the store write more than a message may, all of it in one piece. *reply_bytes: what
 * its results need, with the values that it reads. A list that only reads needs no room for these:
 * where there is none, nothing was done, and the client asks again. */
static enum kv_status look_at_list(struct transact_request *request, unsigned first, unsigned count,
                                   uint64_t *reply_bytes)
{
    uint64_t written_anew = 0;
    *reply_bytes = WIRE_OUTCOME_FIXED_BYTES + (uint64_t)count * WIRE_RESULT_MAX_FIELD_BYTES;
    for (unsigned i = first; i < first + count; i++) {
        uint64_t bytes = size_of_value(request, &request->body.steps[i]);
        if (request->body.steps[i].kind == KVSTORE_STEP_GET)
            *reply_bytes += bytes;
        else
            written_anew += bytes;
        if (written_anew > ALLOWANCE_WRITE_BYTES)
            return transact_body_blame_step(&request->body, i, KV_LIMIT);
    }
    return KV_OK;
}

/* KV_BUFFER_TOO_SMALL: the reply has no room for the result, as its size tells. */
static enum kv_status look_at_lists(struct transact_request *request)
{
    uint64_t then_bytes, otherwise_bytes;
    const struct wire_transaction *counts = &request->body.counts;
    enum kv_status status = look_at_list(request, 0, counts->then, &then_bytes);
    if (status == KV_OK)
        status = look_at_list(request, counts->then, counts->otherwise, &otherwise_bytes);
    if (status != KV_OK)
        return status;
    struct execution *execution = request->execution;
    uint64_t bytes = then_bytes > otherwise_bytes ? then_bytes : otherwise_bytes;
    if (bytes <= execution->context->buffer_bytes &&
        reply_place(execution->reply, bytes).kind != PLACE_NONE)
        return KV_OK;
    result_tell_size(&execution->result, bytes < UINT32_MAX ? bytes : UINT32_MAX);
    return KV_BUFFER_TOO_SMALL;
}

/* Reading -------------------------------------------------------------------------------------- */

/* kvstore_transaction.place: only as much as the reply takes, since a transaction that was done is
 * to tell what it read. */
static void *place_found_value(void *context, uint32_t step, size_t bytes)
{
    struct transact_request *request = context;
    struct execution *execution = request->execution;
    size_t capacity = execution->context->buffer_bytes;
    unsigned count = request->body.counts.then > request->body.counts.otherwise
                         ? request->body.counts.then
                         : request->body.counts.otherwise;
    KV_ASSERT(step < count);
    if (!request->body.found[step] || bytes > request->body.found_bytes[step]) {
        if (bytes > capacity - request->found_used)
            return NULL;
        request->body.found[step] = execution->context->found + request->found_used;
        request->found_used += bytes;
    }
    request->body.found_bytes[step] = bytes;
    if (reply_place(execution->reply, transact_body_bytes(&request->body, count)).kind !=
        PLACE_NONE)
        return request->body.found[step];
    request->body.found[step] = NULL;
    request->body.found_bytes[step] = 0;
    return NULL;
}

/* Results -------------------------------------------------------------------------------------- */

/* Adds the result of the operation, whose status is filled in. done: a list was done. */
static void answer_transaction(struct transact_request *request, bool done)
{
    struct execution *execution = request->execution;
    struct wire_result *result = &execution->result;
    size_t most_bytes =
        transact_body_bytes(&request->body, done ? request->body.outcome.results : 1u);
    struct reply_place place = reply_place(execution->reply, most_bytes);
    if (result->status == KV_BUFFER_TOO_SMALL || place.kind == PLACE_NONE) {
        if (done) /* and nobody hears of it */
            result->status = KV_IO;
        add_plain(execution);
        return;
    }
    struct write_cursor cursor = write_cursor(place.at, place.capacity);
    transact_body_put(&request->body, done ? KV_OK : result->status, &cursor);
    KV_ASSERT(!cursor.failed && write_cursor_used(&cursor) <= most_bytes);
    result->value = kv_slice(NULL, write_cursor_used(&cursor));
    if (reply_add_placed(execution->reply, result, &place))
        return;
    if (done)
        result->status = KV_IO; /* done, but the window does not take what it tells */
    result_tell_size(result, write_cursor_used(&cursor));
    add_plain(execution);
}

/* Executing ------------------------------------------------------------------------------------ */

/* Counts what a list that was done has read and written, and sees to its durability. */
static void take_account(struct transact_request *request)
{
    struct execution *execution = request->execution;
    struct worker_statistics *statistics = execution->context->statistics;
    const struct kvstore_step *steps = transact_body_list(&request->body);
    for (unsigned i = 0; i < request->body.outcome.results; i++) {
        const struct kvstore_step_result *result = &request->body.results[i];
        if (!transact_step_writes(&steps[i])) {
            statistics_add(result->status == KV_NOT_FOUND ? &statistics->misses : &statistics->hits,
                           1);
        } else if (result->written.ticket.position != 0) {
            execution->written.record_bytes += result->written.record_bytes;
            see_to_durability(execution, result->written.ticket);
        }
    }
}

/* The values that the list has read have no room in the reply: it only reads, and nothing was done.
 */
static bool lacks_room_for_values(struct transact_request *request)
{
    uint64_t bytes;
    if (!transact_body_lacks_room(&request->body, &bytes) || request->body.writes)
        return false;
    request->execution->result.status = KV_BUFFER_TOO_SMALL;
    result_tell_size(&request->execution->result, bytes < UINT32_MAX ? bytes : UINT32_MAX);
    return true;
}

static enum kv_status transact(struct transact_request *request)
{
    struct kvstore_transaction transaction = transact_body_transaction(&request->body);
    transaction.place = place_found_value;
    transaction.context = request;
    struct kvstore_transacted transacted;
    enum kv_status status = kvstore_transact(request->execution->store, &transaction,
                                             request->body.results, &transacted);
    transact_body_take(&request->body, status, &transacted);
    return status;
}

static void run_transaction(struct transact_request *request)
{
    struct execution *execution = request->execution;
    struct wire_result *result = &execution->result;
    result->status = take_transaction(execution);
    if (result->status == KV_OK)
        result->status = transact_body_decode(&request->body, execution->value,
                                              live_max_value_bytes(execution->context->live));
    if (result->status == KV_OK)
        result->status = check_rights(request);
    if (result->status == KV_OK && request->body.writes && execution->context->gate &&
        !passes_write_gate(execution)) {
        add_plain(execution);
        return;
    }
    if (result->status == KV_OK)
        result->status = look_at_lists(request);
    if (result->status == KV_OK)
        result->status = transact(request);
    bool done = result->status == KV_OK;
    if (done)
        take_account(request);
    if (done && lacks_room_for_values(request))
        done = false;
    answer_transaction(request, done);
}

void execute_transact(struct execution *execution)
{
    struct transact_request request;
    request.execution = execution;
    request.found_used = 0;
    transact_body_begin(&request.body);
    run_transaction(&request);
    execution_context_trim(execution->context, execution->context->found, request.found_used);
}
