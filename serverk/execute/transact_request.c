/* TRANSACT: several keys change together, or none (kvstore_transact). */
#include <string.h>

#include "common/assert/assert.h"
#include "serverk/execute/execution.h"
#include "serverk/execute/execution_internal.h"
#include "serverk/session/access.h"
#include "wire/transact_value.h"

_Static_assert(WIRE_MAX_TRANSACTION_STEPS == KVSTORE_MAX_TRANSACTION_STEPS, "the engine's limit");

/* A TRANSACT under way. */
struct transact_request {
    struct execution *execution;
    struct wire_transaction counts;
    bool writes; /* one of the lists does */
    struct kvstore_guard guards[WIRE_MAX_TRANSACTION_STEPS];
    struct kvstore_step steps[WIRE_MAX_TRANSACTION_STEPS]; /* `then`, behind it `otherwise` */
    struct kvstore_step_result results[WIRE_MAX_TRANSACTION_STEPS];

    /* Values that were read, in context->found. */
    uint8_t *found[WIRE_MAX_TRANSACTION_STEPS];
    size_t found_bytes[WIRE_MAX_TRANSACTION_STEPS];
    size_t found_used;

    /* What is told beside the results. */
    struct wire_outcome outcome;
};

static enum kv_status blame(struct transact_request *request, enum wire_about about, unsigned at,
                            enum kv_status status)
{
    request->outcome.about = about;
    request->outcome.at = (uint16_t)at;
    return status;
}

/* Blames a step, of whichever list. */
static enum kv_status blame_step(struct transact_request *request, unsigned index,
                                 enum kv_status status)
{
    request->outcome.otherwise = index >= request->counts.then;
    return blame(request, WIRE_ABOUT_STEP,
                 index - (request->outcome.otherwise ? request->counts.then : 0u), status);
}

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

static struct kvstore_guard translate_guard(const struct wire_guard *guard)
{
    static const enum kvstore_guard_kind kinds[] = {
        [WIRE_GUARD_VERSION] = KVSTORE_GUARD_VERSION,
        [WIRE_GUARD_PRESENT] = KVSTORE_GUARD_PRESENT,
        [WIRE_GUARD_ABSENT] = KVSTORE_GUARD_ABSENT,
        [WIRE_GUARD_VALUE] = KVSTORE_GUARD_VALUE,
    };
    return (struct kvstore_guard){.kind = kinds[guard->kind],
                                  .key = guard->key,
                                  .value = guard->value,
                                  .version = guard->version};
}

static struct kvstore_step translate_step(const struct wire_operation *operation)
{
    static const enum kvstore_step_kind kinds[] = {
        [WIRE_OP_GET] = KVSTORE_STEP_GET,     [WIRE_OP_EXISTS] = KVSTORE_STEP_EXISTS,
        [WIRE_OP_PUT] = KVSTORE_STEP_PUT,     [WIRE_OP_DELETE] = KVSTORE_STEP_DELETE,
        [WIRE_OP_ADD] = KVSTORE_STEP_ADD,     [WIRE_OP_APPEND] = KVSTORE_STEP_APPEND,
        [WIRE_OP_TOUCH] = KVSTORE_STEP_TOUCH,
    };
    struct kvstore_step step = {.kind = kinds[operation->opcode],
                                .key = operation->key,
                                .value = operation->value,
                                .expiry_ms = operation->expiry_ms,
                                .keep_expiry = operation->flags & WIRE_KEEP_EXPIRY,
                                .delta = operation->delta};
    if (operation->opcode == WIRE_OP_ADD)
        step.add = operation_add_options(operation);
    return step;
}

static enum kv_status decode_guards(struct transact_request *request, struct read_cursor *cursor)
{
    for (unsigned i = 0; i < request->counts.guards; i++) {
        struct wire_guard guard;
        enum kv_status status = wire_get_guard(cursor, &guard);
        if (status != KV_OK)
            return blame(request, WIRE_ABOUT_GUARD, i, status);
        request->guards[i] = translate_guard(&guard);
    }
    return KV_OK;
}

static unsigned step_count(const struct transact_request *request)
{
    return (unsigned)request->counts.then + request->counts.otherwise;
}

static bool step_changes_key(const struct kvstore_step *step)
{
    return step->kind != KVSTORE_STEP_GET && step->kind != KVSTORE_STEP_EXISTS;
}

static enum kv_status decode_steps(struct transact_request *request, struct read_cursor *cursor)
{
    uint64_t max_value_bytes = live_max_value_bytes(request->execution->context->live);
    for (unsigned i = 0; i < step_count(request); i++) {
        struct wire_operation operation;
        enum kv_status status = wire_get_step(cursor, &operation);
        if (status == KV_OK && operation.value.size > max_value_bytes)
            status = KV_VALUE_TOO_BIG;
        if (status != KV_OK)
            return blame_step(request, i, status);
        request->steps[i] = translate_step(&operation);
        request->writes |= step_changes_key(&request->steps[i]);
    }
    return KV_OK;
}

static enum kv_status decode_transaction(struct transact_request *request)
{
    struct kv_slice value = request->execution->value;
    struct read_cursor cursor = read_cursor(value.data, value.size);
    enum kv_status status = wire_get_transaction(&cursor, &request->counts);
    if (status == KV_OK)
        status = decode_guards(request, &cursor);
    if (status == KV_OK)
        status = decode_steps(request, &cursor);
    return status == KV_OK && read_cursor_left(&cursor) > 0 ? KV_BAD_REQUEST : status;
}

/* What may be done ----------------------------------------------------------------------------- */

/* The rights of both lists, whichever is done: a refusal tells nothing of what the keys have. */
static enum kv_status check_rights(struct transact_request *request)
{
    struct access_user *user = request->execution->session->access;
    if (!user)
        return KV_OK;
    for (unsigned i = 0; i < request->counts.guards; i++) {
        enum kv_status status = access_check_key(user, request->guards[i].key, false);
        if (status != KV_OK)
            return blame(request, WIRE_ABOUT_GUARD, i, status);
    }
    for (unsigned i = 0; i < step_count(request); i++) {
        const struct kvstore_step *step = &request->steps[i];
        enum kv_status status = access_check_key(user, step->key, step_changes_key(step));
        if (status != KV_OK)
            return blame_step(request, i, status);
    }
    return KV_OK;
}

/* Returns the size of the value of the step's key, if that matters. */
static uint64_t size_of_value(const struct transact_request *request,
                              const struct kvstore_step *step)
{
    bool reads = step->kind == KVSTORE_STEP_GET && request->writes;
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
        uint64_t bytes = size_of_value(request, &request->steps[i]);
        if (request->steps[i].kind == KVSTORE_STEP_GET)
            *reply_bytes += bytes;
        else
            written_anew += bytes;
        if (written_anew > ALLOWANCE_WRITE_BYTES)
            return blame_step(request, i, KV_LIMIT);
    }
    return KV_OK;
}

/* KV_BUFFER_TOO_SMALL: the reply has no room for the result, as its size tells. */
static enum kv_status look_at_lists(struct transact_request *request)
{
    uint64_t then_bytes, otherwise_bytes;
    const struct wire_transaction *counts = &request->counts;
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

static size_t bytes_of_results(const struct transact_request *request, unsigned count)
{
    size_t bytes = WIRE_OUTCOME_FIXED_BYTES + (size_t)count * WIRE_RESULT_MAX_FIELD_BYTES;
    for (unsigned i = 0; i < count; i++)
        bytes += request->found_bytes[i];
    return bytes;
}

/* kvstore_transaction.place: only as much as the reply takes, since a transaction that was done is
 * to tell what it read. */
static void *place_found_value(void *context, uint32_t step, size_t bytes)
{
    struct transact_request *request = context;
    struct execution *execution = request->execution;
    size_t capacity = execution->context->buffer_bytes;
    unsigned count = request->counts.then > request->counts.otherwise ? request->counts.then
                                                                      : request->counts.otherwise;
    KV_ASSERT(step < count);
    if (!request->found[step] || bytes > request->found_bytes[step]) {
        if (bytes > capacity - request->found_used)
            return NULL;
        request->found[step] = execution->context->found + request->found_used;
        request->found_used += bytes;
    }
    request->found_bytes[step] = bytes;
    if (reply_place(execution->reply, bytes_of_results(request, count)).kind != PLACE_NONE)
        return request->found[step];
    request->found[step] = NULL;
    request->found_bytes[step] = 0;
    return NULL;
}

/* Results -------------------------------------------------------------------------------------- */

static struct wire_result result_of_read(const struct transact_request *request, unsigned at,
                                         bool with_value)
{
    const struct kvstore_step_result *found = &request->results[at];
    struct wire_result result = {.status = found->status};
    if (found->status == KV_OK || found->status == KV_BUFFER_TOO_SMALL) {
        result_tell_entry(&result, &found->entry);
        if (with_value && found->status == KV_OK)
            result.value = kv_slice(request->found[at], found->entry.value_bytes);
        else
            result_tell_size(&result, found->entry.value_bytes);
    }
    return result;
}

static struct wire_result result_of_write(const struct kvstore_step *step,
                                          const struct kvstore_step_result *written)
{
    struct wire_result result = {.status = written->status};
    if (written->status != KV_OK)
        return result;
    result_tell_version(&result, written->written.version);
    if (step->kind == KVSTORE_STEP_ADD || step->kind == KVSTORE_STEP_APPEND)
        result_tell_number(&result, written->number);
    return result;
}

static const struct kvstore_step *list_of(const struct transact_request *request)
{
    return request->steps + (request->outcome.otherwise ? request->counts.then : 0u);
}

/* Writes the outcome of a transaction that was done, and the results of its steps. */
static void put_results(const struct transact_request *request, struct write_cursor *cursor)
{
    wire_put_outcome(cursor, &request->outcome);
    const struct kvstore_step *steps = list_of(request);
    for (unsigned i = 0; i < request->outcome.results; i++) {
        struct wire_result result =
            step_changes_key(&steps[i])
                ? result_of_write(&steps[i], &request->results[i])
                : result_of_read(request, i, steps[i].kind == KVSTORE_STEP_GET);
        wire_put_result(cursor, &result);
    }
}

/* Writes the outcome of one that was not, and the result of the step that is to blame. */
static void put_failure(struct transact_request *request, struct write_cursor *cursor)
{
    struct wire_result result = {.status = request->execution->result.status};
    const struct wire_outcome *outcome = &request->outcome;
    request->outcome.results = outcome->about == WIRE_ABOUT_STEP;
    if (result.status == KV_OUT_OF_BOUNDS)
        result_tell_number(&result, request->results[outcome->at].number);
    wire_put_outcome(cursor, outcome);
    if (outcome->results > 0)
        wire_put_result(cursor, &result);
}

/* Adds the result of the operation, whose status is filled in. done: a list was done. */
static void answer_transaction(struct transact_request *request, bool done)
{
    struct execution *execution = request->execution;
    struct wire_result *result = &execution->result;
    size_t most_bytes = bytes_of_results(request, done ? request->outcome.results : 1u);
    struct reply_place place = reply_place(execution->reply, most_bytes);
    if (result->status == KV_BUFFER_TOO_SMALL || place.kind == PLACE_NONE) {
        if (done) /* and nobody hears of it */
            result->status = KV_IO;
        add_plain(execution);
        return;
    }
    struct write_cursor cursor = write_cursor(place.at, place.capacity);
    if (done)
        put_results(request, &cursor);
    else
        put_failure(request, &cursor);
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
    const struct kvstore_step *steps = list_of(request);
    for (unsigned i = 0; i < request->outcome.results; i++) {
        const struct kvstore_step_result *result = &request->results[i];
        if (!step_changes_key(&steps[i])) {
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
    uint64_t bytes = WIRE_OUTCOME_FIXED_BYTES;
    bool lacks_room = false;
    for (unsigned i = 0; i < request->outcome.results; i++) {
        lacks_room |= request->results[i].status == KV_BUFFER_TOO_SMALL;
        bytes += WIRE_RESULT_MAX_FIELD_BYTES;
        if (list_of(request)[i].kind == KVSTORE_STEP_GET)
            bytes += request->results[i].entry.value_bytes;
    }
    if (!lacks_room || request->writes)
        return false;
    request->execution->result.status = KV_BUFFER_TOO_SMALL;
    result_tell_size(&request->execution->result, bytes < UINT32_MAX ? bytes : UINT32_MAX);
    return true;
}

static enum kv_status transact(struct transact_request *request)
{
    const struct kvstore_transaction transaction = {.guards = request->guards,
                                                    .guard_count = request->counts.guards,
                                                    .then = request->steps,
                                                    .then_count = request->counts.then,
                                                    .otherwise =
                                                        request->steps + request->counts.then,
                                                    .otherwise_count = request->counts.otherwise,
                                                    .place = place_found_value,
                                                    .context = request};
    struct kvstore_transacted transacted;
    enum kv_status status =
        kvstore_transact(request->execution->store, &transaction, request->results, &transacted);
    struct wire_outcome *outcome = &request->outcome;
    outcome->otherwise = !transacted.held;
    outcome->guard = (uint16_t)(transacted.held ? 0 : transacted.guard);
    unsigned steps = transacted.held ? request->counts.then : request->counts.otherwise;
    if (status == KV_OK)
        outcome->results = (uint16_t)steps;
    else if (transacted.at < (transacted.in_guard ? request->counts.guards : steps))
        blame(request, transacted.in_guard ? WIRE_ABOUT_GUARD : WIRE_ABOUT_STEP, transacted.at,
              status);
    return status;
}

static void run_transaction(struct transact_request *request)
{
    struct execution *execution = request->execution;
    struct wire_result *result = &execution->result;
    result->status = take_transaction(execution);
    if (result->status == KV_OK)
        result->status = decode_transaction(request);
    if (result->status == KV_OK)
        result->status = check_rights(request);
    if (result->status == KV_OK && request->writes && execution->context->gate &&
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
    request.counts = (struct wire_transaction){0};
    request.writes = false;
    memset(request.found, 0, sizeof request.found);
    memset(request.found_bytes, 0, sizeof request.found_bytes);
    request.found_used = 0;
    request.outcome = (struct wire_outcome){.about = WIRE_ABOUT_NOTHING};
    run_transaction(&request);
    execution_context_trim(execution->context, execution->context->found, request.found_used);
}
