#include "serverk/execute/submitted_transaction.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "serverk/execute/transact_body.h"

struct submitted_transaction {
    struct kvstore_transaction asked;
    struct transact_body body;
    struct reply *reply;
    const struct engine_operation *engine;
    value_reserver reserve;
    value_releaser release;
    void *context; /* of both */
    bool is_handed_over;
    size_t reserved_bytes[WIRE_MAX_TRANSACTION_STEPS];  /* for body.found */
    enum kv_status refused[WIRE_MAX_TRANSACTION_STEPS]; /* memory for what was found; or KV_OK */
};

/* Forgets what earlier tries have found: an engine that others' changes hold up plans anew, and
 * then finds other values, in the other list perhaps. Steps before `end` are of this try. */
static void forget_earlier_tries(struct submitted_transaction *transaction, unsigned end)
{
    struct transact_body *body = &transaction->body;
    const struct kvstore_step *list =
        body->steps + (transaction->engine->transacted.held ? 0 : body->counts.then);
    for (unsigned i = 0; i < WIRE_MAX_TRANSACTION_STEPS; i++) {
        if (i < end && list[i].kind == KVSTORE_STEP_GET && body->results[i].status != KV_NOT_FOUND)
            continue;
        body->found_bytes[i] = 0;
        transaction->refused[i] = KV_OK;
    }
}

/* A kvstore_transaction.place: in memory of its own, if the reply takes all that was found so
 * far. */
static void *place_submitted_value(void *context, uint32_t step, size_t bytes)
{
    struct submitted_transaction *transaction = context;
    struct transact_body *body = &transaction->body;
    unsigned count =
        body->counts.then > body->counts.otherwise ? body->counts.then : body->counts.otherwise;
    KV_ASSERT(step < count);
    forget_earlier_tries(transaction, step);
    if (body->found[step])
        transaction->release(transaction->context, body->found[step],
                             transaction->reserved_bytes[step]);
    body->found[step] = NULL;
    body->found_bytes[step] = bytes;
    if (reply_place(transaction->reply, transact_body_bytes(body, count)).kind != PLACE_NONE)
        body->found[step] =
            transaction->reserve(transaction->context, bytes, &transaction->refused[step]);
    transaction->reserved_bytes[step] = bytes;
    if (!body->found[step])
        body->found_bytes[step] = 0;
    return body->found[step];
}

enum kv_status submitted_transaction_begin(struct submitted_transaction **result,
                                           struct engine_operation *engine, struct kv_slice value,
                                           uint64_t max_value_bytes, struct reply *reply,
                                           value_reserver reserve, value_releaser release,
                                           void *context)
{
    struct submitted_transaction *transaction = *result = calloc(1, sizeof *transaction);
    if (!transaction)
        return KV_NO_MEMORY;
    transaction->reply = reply;
    transaction->engine = engine;
    transaction->reserve = reserve;
    transaction->release = release;
    transaction->context = context;
    transact_body_begin(&transaction->body);
    enum kv_status status = transact_body_decode(&transaction->body, value, max_value_bytes);
    if (status != KV_OK)
        return status;
    transaction->asked = transact_body_transaction(&transaction->body);
    transaction->asked.place = place_submitted_value;
    transaction->asked.context = transaction;
    engine->transaction = &transaction->asked;
    engine->results = transaction->body.results;
    transaction->is_handed_over = true;
    return KV_OK;
}

bool submitted_transaction_add(struct submitted_transaction *transaction,
                               struct wire_result *result)
{
    if (!transaction)
        return false;
    struct transact_body *body = &transaction->body;
    if (transaction->is_handed_over) {
        transact_body_take(body, result->status, &transaction->engine->transacted);
        forget_earlier_tries(transaction, transaction->engine->transacted.held
                                              ? body->counts.then
                                              : body->counts.otherwise);
    }
    if (result->status == KV_BUFFER_TOO_SMALL) {
        uint64_t bytes;
        enum kv_status refused = KV_OK;
        for (unsigned i = 0; i < WIRE_MAX_TRANSACTION_STEPS && refused == KV_OK; i++)
            refused = transaction->refused[i];
        transact_body_lacks_room(body, &bytes);
        if (refused != KV_OK)
            *result = (struct wire_result){.status = refused};
        else
            result_tell_size(result, bytes < UINT32_MAX ? bytes : UINT32_MAX);
        return false;
    }
    bool done = result->status == KV_OK;
    size_t most_bytes = transact_body_bytes(body, done ? body->outcome.results : 1u);
    struct reply_place place = reply_place(transaction->reply, most_bytes);
    if (place.kind != PLACE_NONE) {
        struct write_cursor cursor = write_cursor(place.at, place.capacity);
        transact_body_put(body, result->status, &cursor);
        KV_ASSERT(!cursor.failed && write_cursor_used(&cursor) <= most_bytes);
        result->value = kv_slice(NULL, write_cursor_used(&cursor));
        if (reply_add_placed(transaction->reply, result, &place))
            return true;
        result->value = (struct kv_slice){0};
    }
    if (done) /* and nobody hears of it */
        result->status = KV_IO;
    return false;
}

void submitted_transaction_drop(struct submitted_transaction *transaction)
{
    for (unsigned i = 0; transaction && i < WIRE_MAX_TRANSACTION_STEPS; i++)
        free(transaction->body.found[i]);
    free(transaction);
}
