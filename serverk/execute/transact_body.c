#include "serverk/execute/transact_body.h"

#include <string.h>

#include "serverk/execute/execution.h"
#include "serverk/execute/reply.h"

_Static_assert(WIRE_MAX_TRANSACTION_STEPS == KVSTORE_MAX_TRANSACTION_STEPS, "the engine's limit");

void transact_body_begin(struct transact_body *body)
{
    body->counts = (struct wire_transaction){0};
    body->writes = false;
    memset(body->found, 0, sizeof body->found);
    memset(body->found_bytes, 0, sizeof body->found_bytes);
    body->outcome = (struct wire_outcome){.about = WIRE_ABOUT_NOTHING};
}

enum kv_status transact_body_blame_guard(struct transact_body *body, unsigned at,
                                         enum kv_status status)
{
    body->outcome.about = WIRE_ABOUT_GUARD;
    body->outcome.at = (uint16_t)at;
    return status;
}

enum kv_status transact_body_blame_step(struct transact_body *body, unsigned index,
                                        enum kv_status status)
{
    body->outcome.about = WIRE_ABOUT_STEP;
    body->outcome.otherwise = index >= body->counts.then;
    body->outcome.at = (uint16_t)(index - (body->outcome.otherwise ? body->counts.then : 0u));
    return status;
}

/* Decoding ------------------------------------------------------------------------------------- */

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

static enum kv_status decode_guards(struct transact_body *body, struct read_cursor *cursor)
{
    for (unsigned i = 0; i < body->counts.guards; i++) {
        struct wire_guard guard;
        enum kv_status status = wire_get_guard(cursor, &guard);
        if (status != KV_OK)
            return transact_body_blame_guard(body, i, status);
        body->guards[i] = translate_guard(&guard);
    }
    return KV_OK;
}

static enum kv_status decode_steps(struct transact_body *body, struct read_cursor *cursor,
                                   uint64_t max_value_bytes)
{
    for (unsigned i = 0; i < transact_body_steps(body); i++) {
        struct wire_operation operation;
        enum kv_status status = wire_get_step(cursor, &operation);
        if (status == KV_OK && operation.value.size > max_value_bytes)
            status = KV_VALUE_TOO_BIG;
        if (status != KV_OK)
            return transact_body_blame_step(body, i, status);
        body->steps[i] = translate_step(&operation);
        body->writes |= transact_step_writes(&body->steps[i]);
    }
    return KV_OK;
}

enum kv_status transact_body_decode(struct transact_body *body, struct kv_slice value,
                                    uint64_t max_value_bytes)
{
    struct read_cursor cursor = read_cursor(value.data, value.size);
    enum kv_status status = wire_get_transaction(&cursor, &body->counts);
    if (status == KV_OK)
        status = decode_guards(body, &cursor);
    if (status == KV_OK)
        status = decode_steps(body, &cursor, max_value_bytes);
    return status == KV_OK && read_cursor_left(&cursor) > 0 ? KV_BAD_REQUEST : status;
}

/* The engine ----------------------------------------------------------------------------------- */

struct kvstore_transaction transact_body_transaction(const struct transact_body *body)
{
    return (struct kvstore_transaction){.guards = body->guards,
                                        .guard_count = body->counts.guards,
                                        .then = body->steps,
                                        .then_count = body->counts.then,
                                        .otherwise = body->steps + body->counts.then,
                                        .otherwise_count = body->counts.otherwise};
}

void transact_body_take(struct transact_body *body, enum kv_status status,
                        const struct kvstore_transacted *transacted)
{
    struct wire_outcome *outcome = &body->outcome;
    outcome->otherwise = !transacted->held;
    outcome->guard = (uint16_t)(transacted->held ? 0 : transacted->guard);
    unsigned steps = transacted->held ? body->counts.then : body->counts.otherwise;
    if (status == KV_OK) {
        outcome->results = (uint16_t)steps;
    } else if (transacted->at < (transacted->in_guard ? body->counts.guards : steps)) {
        outcome->about = transacted->in_guard ? WIRE_ABOUT_GUARD : WIRE_ABOUT_STEP;
        outcome->at = (uint16_t)transacted->at;
    }
}

const struct kvstore_step *transact_body_list(const struct transact_body *body)
{
    return body->steps + (body->outcome.otherwise ? body->counts.then : 0u);
}

/* Results -------------------------------------------------------------------------------------- */

size_t transact_body_bytes(const struct transact_body *body, unsigned count)
{
    size_t bytes = WIRE_OUTCOME_FIXED_BYTES + (size_t)count * WIRE_RESULT_MAX_FIELD_BYTES;
    for (unsigned i = 0; i < count; i++)
        bytes += body->found_bytes[i];
    return bytes;
}

bool transact_body_lacks_room(const struct transact_body *body, uint64_t *bytes)
{
    unsigned count = body->outcome.otherwise ? body->counts.otherwise : body->counts.then;
    bool lacks_room = false;
    *bytes = WIRE_OUTCOME_FIXED_BYTES;
    for (unsigned i = 0; i < count; i++) {
        lacks_room |= body->results[i].status == KV_BUFFER_TOO_SMALL;
        *bytes += WIRE_RESULT_MAX_FIELD_BYTES;
        if (transact_body_list(body)[i].kind == KVSTORE_STEP_GET)
            *bytes += body->results[i].entry.value_bytes;
    }
    return lacks_room;
}

static struct wire_result result_of_read(const struct transact_body *body, unsigned at,
                                         bool with_value)
{
    const struct kvstore_step_result *found = &body->results[at];
    struct wire_result result = {.status = found->status};
    if (found->status == KV_OK || found->status == KV_BUFFER_TOO_SMALL) {
        result_tell_entry(&result, &found->entry);
        if (with_value && found->status == KV_OK)
            result.value = kv_slice(body->found[at], found->entry.value_bytes);
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

/* Writes the outcome of a transaction that was done, and the results of its steps. */
static void put_results(const struct transact_body *body, struct write_cursor *cursor)
{
    wire_put_outcome(cursor, &body->outcome);
    const struct kvstore_step *steps = transact_body_list(body);
    for (unsigned i = 0; i < body->outcome.results; i++) {
        struct wire_result result =
            transact_step_writes(&steps[i])
                ? result_of_write(&steps[i], &body->results[i])
                : result_of_read(body, i, steps[i].kind == KVSTORE_STEP_GET);
        wire_put_result(cursor, &result);
    }
}

/* Writes the outcome of one that was not, and the result of the step that is to blame. */
static void put_failure(struct transact_body *body, enum kv_status status,
                        struct write_cursor *cursor)
{
    struct wire_result result = {.status = status};
    const struct wire_outcome *outcome = &body->outcome;
    body->outcome.results = outcome->about == WIRE_ABOUT_STEP;
    if (result.status == KV_OUT_OF_BOUNDS)
        result_tell_number(&result, body->results[outcome->at].number);
    wire_put_outcome(cursor, outcome);
    if (outcome->results > 0)
        wire_put_result(cursor, &result);
}

void transact_body_put(struct transact_body *body, enum kv_status status,
                       struct write_cursor *cursor)
{
    if (status == KV_OK)
        put_results(body, cursor);
    else
        put_failure(body, status, cursor);
}
