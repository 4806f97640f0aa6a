#include "serverk/execute/submitted_operation.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/execute/execution.h"
#include "serverk/execute/submitted_transaction.h"

_Static_assert(offsetof(struct submitted_operation, engine) == 0,
               "engine_done finds the operation");

/* A page whose first entry had no room gets a place with room for it; writers may make it grow in
 * between. */
#define SCAN_TRIES 3u

static const struct submission_services *services_of(const struct submitted_operation *submitted)
{
    return submissions_services(submitted->request->all);
}

static void submit_operation(struct submitted_operation *submitted)
{
    struct store_engine *engine = services_of(submitted)->engine;
    KV_ASSERT(!engine_is_called(engine) && submitted->engine.status == KV_OK);
    engine->calls->submit(engine, &submitted->engine);
}

/* Memory for a value of that size. NULL: *status says why. A value_reserver. */
static uint8_t *reserve_value(void *context, size_t size, enum kv_status *status)
{
    struct submitted_operation *submitted = context;
    struct submissions *all = submitted->request->all;
    uid_t uid = submitted->request->uid;
    *status = KV_OVERLOADED;
    if (!submissions_add_bytes(all, uid, size))
        return NULL;
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    *status = bytes ? KV_OK : KV_NO_MEMORY;
    if (bytes)
        submitted->counted_bytes += size;
    else
        submissions_release_bytes(all, uid, size);
    return bytes;
}

/* A value_releaser. */
static void release_value(void *context, uint8_t *bytes, size_t size)
{
    struct submitted_operation *submitted = context;
    KV_ASSERT(submitted->counted_bytes >= size);
    submitted->counted_bytes -= size;
    submissions_release_bytes(submitted->request->all, submitted->request->uid, size);
    free(bytes);
}

/* Before the engine ---------------------------------------------------------------------------- */

/* Finds the operation's value, out of the segment if it lies there: a copy, since the client may
 * change it while the engine sends it. */
static enum kv_status take_submitted_value(struct submitted_operation *submitted)
{
    const struct wire_operation *operation = &submitted->operation;
    const struct submitted_request *request = submitted->request;
    size_t size = operation->value.size;
    submitted->engine.value = operation->value;
    KV_ASSERT(!submitted->brought);
    if (wire_extra_value_bytes(operation->opcode) == 0 && /* values of TRANSACT: one by one */
        size > engine_max_value_bytes(services_of(submitted)->engine))
        return KV_VALUE_TOO_BIG;
    if (!(operation->flags & WIRE_VALUE_IN_SEGMENT))
        return KV_OK;
    const struct wire_segment *segment = atomic_load(&request->session->segment);
    if (!segment)
        return KV_BAD_REQUEST;
    enum kv_status status;
    submitted->brought = reserve_value(submitted, size, &status);
    if (!submitted->brought)
        return status;
    submissions_count_brought(request->all, size);
    submitted->engine.value.data = submitted->brought;
    return wire_segment_read(segment, operation->value_offset, submitted->brought, size)
               ? KV_OK
               : KV_BAD_REQUEST;
}

/* A kvstore_place: whether the old value of an EXCHANGE has a place in the reply. */
static void *show_old_value_place(void *context, size_t bytes)
{
    struct submitted_operation *submitted = context;
    submitted->place = reply_place(&submitted->request->reply, bytes);
    return submitted->place.kind == PLACE_NONE ? NULL : submitted->place.at;
}

static enum engine_opcode engine_opcode_of(enum wire_opcode opcode)
{
    static const enum engine_opcode opcodes[] = {
        [WIRE_OP_GET] = ENGINE_GET,           [WIRE_OP_EXISTS] = ENGINE_EXISTS,
        [WIRE_OP_PUT] = ENGINE_PUT,           [WIRE_OP_DELETE] = ENGINE_DELETE,
        [WIRE_OP_ADD] = ENGINE_ADD,           [WIRE_OP_APPEND] = ENGINE_APPEND,
        [WIRE_OP_EXCHANGE] = ENGINE_EXCHANGE, [WIRE_OP_TOUCH] = ENGINE_TOUCH,
        [WIRE_OP_SCAN] = ENGINE_SCAN,         [WIRE_OP_SYNC] = ENGINE_SYNC,
        [WIRE_OP_TRANSACT] = ENGINE_TRANSACT};
    return opcodes[opcode];
}

/* The engine gives up a little before the client does, which so gets its word. */
#define MARGIN_MS      50u
#define LONG_ENOUGH_MS 250u

static uint64_t engine_deadline(const struct submitted_request *request)
{
    uint64_t deadline_ms = request->header.deadline_ms;
    bool is_long = deadline_ms > clock_monotonic_coarse_ms() + LONG_ENOUGH_MS;
    return is_long ? deadline_ms - MARGIN_MS : deadline_ms;
}

static void fill_in(struct submitted_operation *submitted)
{
    const struct wire_operation *operation = &submitted->operation;
    struct engine_operation *engine = &submitted->engine;
    engine->opcode = engine_opcode_of(operation->opcode);
    engine->key = operation->key;
    engine->delta = operation->delta;
    engine->synced = operation->flags & WIRE_SYNC_ALWAYS;
    engine->deadline_ms = engine_deadline(submitted->request);
    engine->context = submitted;
    engine->place = show_old_value_place;
    engine->put = operation_put_options(operation);
    engine->add = operation_add_options(operation);
}

static void scan_into(struct submitted_operation *submitted, struct reply_place place)
{
    const struct wire_operation *operation = &submitted->operation;
    struct engine_operation *engine = &submitted->engine;
    submitted->place = place;
    scan_page_begin(&submitted->page, operation, NULL, place.at, place.capacity);
    engine->cursor = operation->cursor;
    engine->limit = scan_page_limit(operation);
    engine->keys_only = operation->flags & WIRE_KEYS_ONLY;
    engine->atomic = operation->flags & WIRE_ATOMIC;
    engine->visit = scan_page_add;
    engine->context = &submitted->page;
}

/* True: the first entry had no room, and the scan begins anew with more. */
static bool scan_again(struct submitted_operation *submitted)
{
    struct submitted_request *request = submitted->request;
    const struct scan_page *page = &submitted->page;
    if (submitted->engine.opcode != ENGINE_SCAN || submitted->engine.status != KV_OK ||
        page->refused_bytes == 0 || page->entries > 0)
        return false;
    submitted->engine.status = KV_BUFFER_TOO_SMALL;
    if (submitted->tries++ == SCAN_TRIES)
        return false;
    struct reply_place place = reply_place(&request->reply, page->refused_bytes);
    if (place.kind == PLACE_NONE)
        return false;
    submitted->engine.status = KV_OK;
    scan_into(submitted, place);
    return true;
}

/* engine_operation.done. */
static void engine_done(struct engine_operation *engine)
{
    struct submitted_operation *submitted = (struct submitted_operation *)engine;
    struct submitted_request *request = submitted->request;
    if (scan_again(submitted)) {
        submit_operation(submitted);
        return;
    }
    size_t size = engine->found_value.size;
    if (engine->opcode == ENGINE_GET && engine->status == KV_OK && size > 0) {
        submitted->found = reserve_value(submitted, size, &engine->status);
        if (submitted->found)
            memcpy(submitted->found, engine->found_value.data, size);
    }
    request->done(request, submitted);
}

static bool brings_value(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_PUT || opcode == WIRE_OP_APPEND || opcode == WIRE_OP_EXCHANGE ||
           opcode == WIRE_OP_PING || opcode == WIRE_OP_ADMIN || opcode == WIRE_OP_TRANSACT;
}

/* STATS, PING and ADMIN, which no engine sees. */
static void answer_here(struct submitted_operation *submitted)
{
    const struct submission_services *services = services_of(submitted);
    struct engine_operation *engine = &submitted->engine;
    if (submitted->operation.opcode == WIRE_OP_PING) {
        engine->found_value = engine->value;
    } else if (submitted->operation.opcode == WIRE_OP_ADMIN) {
        struct admin_call call = {.command = submitted->operation.key,
                                  .argument = engine->value,
                                  .session = submitted->request->session};
        engine->status = services->run_admin(services->admin_context, &call);
        submitted->found = (uint8_t *)call.text;
        engine->found_value = kv_slice(call.text, call.size);
    } else {
        char *text = NULL;
        size_t size = 0;
        engine->status =
            services->write_stats(services->stats_context, submitted->operation.key, &text, &size);
        submitted->found = (uint8_t *)text;
        engine->found_value = kv_slice(text, size);
    }
}

void submitted_operation_begin(struct submitted_operation *submitted,
                               struct submitted_request *request,
                               const struct wire_operation *operation)
{
    *submitted = (struct submitted_operation){.request = request, .operation = *operation};
    struct engine_operation *engine = &submitted->engine;
    enum wire_opcode opcode = submitted->operation.opcode;
    engine->done = engine_done;
    if (brings_value(opcode))
        engine->status = take_submitted_value(submitted);
    if (opcode == WIRE_OP_BACKUP || opcode == WIRE_OP_WATCH) /* there are no data files */
        engine->status = KV_UNSUPPORTED;
    if (wire_is_range(opcode)) {
        engine->status = KV_UNSUPPORTED;
        engine->sentence = "a cluster has its keys in no order: use scan";
    }
    if (opcode == WIRE_OP_TRANSACT && engine->status == KV_OK)
        engine->status =
            submitted_transaction_begin(&submitted->transaction, engine, engine->value,
                                        engine_max_value_bytes(services_of(submitted)->engine),
                                        &request->reply, reserve_value, release_value, submitted);
    bool here = opcode == WIRE_OP_STATS || opcode == WIRE_OP_PING || opcode == WIRE_OP_ADMIN;
    if (engine->status != KV_OK || here) {
        if (engine->status == KV_OK)
            answer_here(submitted);
        request->done(request, submitted);
        return;
    }
    fill_in(submitted);
    if (opcode == WIRE_OP_SCAN)
        scan_into(submitted, reply_largest_place(&request->reply));
    submit_operation(submitted);
}

/* Results -------------------------------------------------------------------------------------- */

/* Adds the result with these bytes as value; if they have no place, with their size. */
static bool add_bytes(struct submitted_request *request, struct wire_result *result,
                      struct kv_slice bytes)
{
    struct reply_place place = reply_place(&request->reply, bytes.size);
    if (place.kind != PLACE_NONE) {
        if (bytes.size > 0)
            memcpy(place.at, bytes.data, bytes.size);
        result->value = kv_slice(NULL, bytes.size);
        if (reply_add_placed(&request->reply, result, &place))
            return true;
    }
    result->status = KV_BUFFER_TOO_SMALL;
    result_tell_size(result, bytes.size);
    return false;
}

/* The value was written at its place by the engine. */
static bool add_placed(struct submitted_operation *submitted, struct wire_result *result,
                       size_t bytes, enum kv_status otherwise)
{
    result->value = kv_slice(NULL, bytes);
    if (reply_add_placed(&submitted->request->reply, result, &submitted->place))
        return true;
    result->status = otherwise;
    result_tell_size(result, bytes);
    return false;
}

static bool add_scan(struct submitted_operation *submitted, struct wire_result *result)
{
    const struct scan_page *page = &submitted->page;
    if (result->status == KV_BUFFER_TOO_SMALL)
        result_tell_size(result, page->refused_bytes);
    if (result->status != KV_OK)
        return false;
    result_tell_number(result, submitted->engine.number);
    return add_placed(submitted, result, write_cursor_used(&page->cursor), KV_BUFFER_TOO_SMALL);
}

static bool add_exchange(struct submitted_operation *submitted, struct wire_result *result)
{
    const struct engine_operation *engine = &submitted->engine;
    if (result->status == KV_BUFFER_TOO_SMALL)
        result_tell_size(result, engine->entry.value_bytes);
    if (result->status != KV_OK)
        return false;
    result_tell_version(result, engine->entry.version);
    if (!engine->found)
        submitted->place = reply_place(&submitted->request->reply, 0);
    result->flags |= engine->found ? WIRE_RESULT_FOUND : 0;
    return add_placed(submitted, result, engine->found ? engine->entry.value_bytes : 0, KV_IO);
}

/* Fills in the result; true if it is in the reply, with its value. */
static bool add_result(struct submitted_operation *submitted, struct wire_result *result)
{
    const struct engine_operation *engine = &submitted->engine;
    struct kv_slice found = engine->found_value;
    bool applied = result->status == KV_OK;
    if (submitted->found)
        found.data = submitted->found;
    switch (submitted->operation.opcode) {
    case WIRE_OP_GET:
        if (applied)
            result_tell_entry(result, &engine->entry);
        return applied && add_bytes(submitted->request, result, found);
    case WIRE_OP_EXISTS:
        if (applied) {
            result_tell_entry(result, &engine->entry);
            result_tell_size(result, engine->entry.value_bytes);
        }
        return false;
    case WIRE_OP_STATS:
    case WIRE_OP_PING:
        return applied && add_bytes(submitted->request, result, found);
    case WIRE_OP_ADMIN: /* a failure has its sentence */
        return found.size > 0 && add_bytes(submitted->request, result, found);
    case WIRE_OP_EXCHANGE:
        return add_exchange(submitted, result);
    case WIRE_OP_SCAN:
        return add_scan(submitted, result);
    case WIRE_OP_TRANSACT:
        return submitted_transaction_add(submitted->transaction, result);
    case WIRE_OP_ADD:
        if (applied || result->status == KV_OUT_OF_BOUNDS)
            result_tell_number(result, engine->number);
        break;
    case WIRE_OP_APPEND:
        if (applied)
            result_tell_number(result, engine->number);
        break;
    case WIRE_OP_PUT:
    case WIRE_OP_DELETE:
    case WIRE_OP_TOUCH:
        break;
    case WIRE_OP_SYNC:
    case WIRE_OP_BACKUP:
    case WIRE_OP_WATCH:
    case WIRE_OP_RANGE:
    case WIRE_OP_RANGE_COUNT:
    case WIRE_OP_RANGE_DELETE:
        return false;
    }
    if (applied)
        result_tell_version(result, engine->entry.version);
    return false;
}

bool submitted_operation_settle(struct submitted_operation *submitted)
{
    struct submitted_request *request = submitted->request;
    struct reply *reply = &request->reply;
    struct wire_result result = {.status = submitted->engine.status};
    bool added = add_result(submitted, &result);
    bool stops = !added && result.status == KV_BUFFER_TOO_SMALL && reply->may_stop;
    bool without_result = stops && reply->results > 0;
    if (!added && !without_result)
        reply_add(reply, &result);
    if (request->header.count == 1 && result.status != KV_OK && submitted->engine.sentence) {
        request->refusal = result.status;
        request->sentence = submitted->engine.sentence;
    }
    if (!without_result)
        submissions_count_result(request->all, submitted->operation.opcode, result.status);
    submitted_operation_drop(submitted);
    return stops;
}

void submitted_operation_drop(struct submitted_operation *submitted)
{
    free(submitted->brought);
    free(submitted->found);
    submitted_transaction_drop(submitted->transaction);
    submitted->brought = submitted->found = NULL;
    submitted->transaction = NULL;
    if (submitted->counted_bytes > 0)
        submissions_release_bytes(submitted->request->all, submitted->request->uid,
                                  submitted->counted_bytes);
    submitted->counted_bytes = 0;
}
