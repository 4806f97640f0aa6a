#include "serverk/execute/execution.h"

#include <stdlib.h>
#include <string.h>

#include "common/copy.h"
#include "serverk/daemon/stats_json.h"
#include "serverk/execute/allowance.h"
#include "serverk/execute/scan_page.h"

/* Operations that copy so much are worth waking another worker for (10 us and more; a wake is 20). */
#define LONG_VALUE_BYTES (256u << 10)

/* What was too big for the largest place gets another that is large enough; writers may make it grow
 * in between. */
#define SCAN_TRIES 3u

struct execution {
    struct worker *worker;
    struct kvstore *store;
    struct session *session;
    struct reply *reply;
    struct allowance allowance;
    bool synced; /* a SYNC was executed, and nothing written since */
    bool begun;  /* the first operation was */
    const struct wire_operation *operation;
    struct kv_slice value; /* of the operation, wherever it lies */
    struct wire_result result;
    struct kvstore_written written;
    bool found;   /* EXCHANGE */
    bool stopped; /* the rest of the request is not executed: its reply is full */
};

/* Fields ------------------------------------------------------------------------------------------- */

static void tell_version(struct wire_result *result, uint64_t version)
{
    result->flags |= WIRE_RESULT_HAS_VERSION;
    result->version = version;
}

static void tell_number(struct wire_result *result, int64_t number)
{
    result->flags |= WIRE_RESULT_HAS_NUMBER;
    result->number = number;
}

static void tell_entry(struct wire_result *result, const struct kvstore_entry *entry)
{
    tell_version(result, entry->version);
    if (entry->expiry_ms) {
        result->flags |= WIRE_RESULT_HAS_EXPIRY;
        result->expiry_ms = entry->expiry_ms;
    }
}

static void tell_size_only(struct wire_result *result, size_t value_bytes)
{
    result->flags |= WIRE_RESULT_NO_VALUE;
    result->value = kv_slice(NULL, value_bytes);
}

/* Adds the result if it has no value in the reply yet. Where the client takes a short reply, one without room for
 * its value ends it: such a result is the only one, or there is none for the operation. */
static void add_plain(struct execution *execution)
{
    struct reply *reply = execution->reply;
    bool lacks_room = execution->result.status == KV_BUFFER_TOO_SMALL;
    execution->stopped = lacks_room && reply->may_stop;
    if (!execution->stopped || reply->results == 0)
        reply_add(reply, &execution->result);
}

/* Values ------------------------------------------------------------------------------------------- */

/* Finds the operation's value: in the message, in the mapped segment, or read out of it. */
static enum kv_status take_value(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    size_t size = operation->value.size;
    execution->value = operation->value;
    if (size > kvstore_max_value_bytes(execution->store))
        return KV_VALUE_TOO_BIG;
    if (size >= LONG_VALUE_BYTES)
        worker_expect_long(execution->worker);
    if (!(operation->flags & WIRE_VALUE_IN_SEGMENT))
        return KV_OK;
    const struct wire_segment *segment = atomic_load(&execution->session->segment);
    if (!segment)
        return KV_BAD_REQUEST;
    if (!wire_segment_is_mapped(segment)) /* its owner can make that wait */
        worker_expect_long(execution->worker);
    statistics_add(&execution->worker->statistics->bytes_in, size); /* those of messages are in */
    execution->value.data = wire_segment_at(segment, operation->value_offset, size);
    if (execution->value.data)
        return KV_OK;
    struct worker *worker = execution->worker;
    execution->value.data = worker->incoming;
    if (size > worker->incoming_used)
        worker->incoming_used = size;
    return wire_segment_read(segment, operation->value_offset, worker->incoming, size)
               ? KV_OK
               : KV_BAD_REQUEST;
}

/* Reads a value into a buffer; KV_BUFFER_TOO_SMALL with entry->value_bytes if it does not fit. */
typedef enum kv_status (*value_reader)(struct execution *execution, void *buffer, size_t capacity,
                                       struct kvstore_entry *entry);

/* Reads a value into the reply: where there is room at first, and if it is larger, where one of its
 * size fits (again, should it grow meanwhile). On KV_OK *place has it. */
static enum kv_status read_into_reply(struct execution *execution, value_reader reader,
                                      struct kvstore_entry *entry, struct reply_place *place)
{
    *place = reply_place(execution->reply, 0);
    enum kv_status status = reader(execution, place->at, place->capacity, entry);
    for (int growths = 0; status == KV_BUFFER_TOO_SMALL && growths < 3; growths++) {
        *place = reply_place(execution->reply, entry->value_bytes);
        if (place->kind == PLACE_NONE)
            break;
        if (entry->value_bytes >= LONG_VALUE_BYTES)
            worker_expect_long(execution->worker);
        status = reader(execution, place->at, place->capacity, entry);
    }
    return status;
}

static bool overlap(const void *a, const void *b, size_t size)
{
    uintptr_t from = (uintptr_t)a, to = (uintptr_t)b;
    return from < to ? to - from < size : from - to < size;
}

/* Copies bytes that are at hand into the reply as the result's value. They may lie in the segment, and
 * the window over them: then the reply has them as they were. */
static void add_copy(struct execution *execution, struct kv_slice bytes)
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
    tell_size_only(result, bytes.size);
    add_plain(execution);
}

/* Reads ---------------------------------------------------------------------------------------------- */

static void count_lookup(struct execution *execution)
{
    struct worker_statistics *statistics = execution->worker->statistics;
    if (execution->result.status == KV_NOT_FOUND)
        statistics_add(&statistics->misses, 1);
    else
        statistics_add(&statistics->hits, 1);
}

static enum kv_status get_reader(struct execution *execution, void *buffer, size_t capacity,
                                 struct kvstore_entry *entry)
{
    return kvstore_get(execution->store, execution->operation->key, buffer, capacity, entry);
}

static void run_get(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry entry;
    struct reply_place place;
    result->status = read_into_reply(execution, get_reader, &entry, &place);
    count_lookup(execution);
    if (result->status == KV_OK) {
        tell_entry(result, &entry);
        result->value = kv_slice(NULL, entry.value_bytes);
        if (reply_add_placed(execution->reply, result, &place))
            return;
        result->status = KV_BUFFER_TOO_SMALL; /* the window does not take it */
        tell_size_only(result, entry.value_bytes);
    } else if (result->status == KV_BUFFER_TOO_SMALL) {
        tell_entry(result, &entry);
        tell_size_only(result, entry.value_bytes);
    }
    add_plain(execution);
}

static void run_exists(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry entry;
    result->status = kvstore_get(execution->store, execution->operation->key, NULL, 0, &entry);
    count_lookup(execution);
    if (result->status == KV_OK) {
        tell_entry(result, &entry);
        tell_size_only(result, entry.value_bytes);
    }
    add_plain(execution);
}

/* Writes ------------------------------------------------------------------------------------------- */

/* The write was applied: its result tells the version, and its durability is seen to. */
static void tell_written(struct execution *execution)
{
    const struct worker *worker = execution->worker;
    execution->synced = false;
    tell_version(&execution->result, execution->written.version);
    enum kvstore_durability durability = worker->service->options->durability;
    unsigned flags = execution->operation->flags;
    if (durability == KVSTORE_SYNC_ALWAYS || (flags & WIRE_SYNC_ALWAYS))
        commit_waits_add(&execution->worker->waits, execution->written.ticket);
    else if (durability == KVSTORE_SYNC_NONE && (flags & WIRE_SYNC_INTERVAL))
        kvstore_request_sync(execution->store, execution->written.ticket); /* sooner than asked */
}

static struct kvstore_put_options put_options(const struct wire_operation *operation)
{
    return (struct kvstore_put_options){
        .condition = operation->flags & WIRE_IF_ABSENT     ? KVSTORE_IF_ABSENT
                     : operation->flags & WIRE_IF_PRESENT  ? KVSTORE_IF_PRESENT
                     : operation->flags & WIRE_HAS_VERSION ? KVSTORE_IF_VERSION
                                                           : KVSTORE_ALWAYS,
        .version = operation->version,
        .expiry_ms = operation->expiry_ms,
        .keep_expiry = operation->flags & WIRE_KEEP_EXPIRY};
}

static void run_put(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_put_options options = put_options(execution->operation);
    result->status = take_value(execution);
    if (result->status == KV_OK)
        result->status = kvstore_put(execution->store, execution->operation->key, execution->value,
                                     &options, &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    add_plain(execution);
}

static void run_delete(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    result->status = kvstore_delete(execution->store, execution->operation->key,
                                    execution->operation->version, &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    add_plain(execution);
}

static void run_add(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    bool bounded = operation->flags & WIRE_HAS_BOUNDS;
    struct kvstore_add_options options = {.has_min = bounded,
                                          .has_max = bounded,
                                          .if_present = !(operation->flags & WIRE_CREATE),
                                          .min = operation->min,
                                          .max = operation->max,
                                          .initial = operation->initial,
                                          .expiry_ms = operation->expiry_ms};
    struct wire_result *result = &execution->result;
    int64_t sum = 0;
    result->status = kvstore_add(execution->store, operation->key, operation->delta, &options, &sum,
                                 &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    if (result->status == KV_OK || result->status == KV_OUT_OF_BOUNDS)
        tell_number(result, sum);
    add_plain(execution);
}

static void run_append(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    uint32_t value_bytes = 0;
    result->status = take_value(execution);
    if (result->status == KV_OK)
        result->status = kvstore_append(execution->store, execution->operation->key,
                                        execution->value, &value_bytes, &execution->written);
    if (result->status == KV_OK) {
        tell_written(execution);
        tell_number(result, value_bytes);
    }
    add_plain(execution);
}

static enum kv_status exchange_reader(struct execution *execution, void *buffer, size_t capacity,
                                      struct kvstore_entry *entry)
{
    struct kvstore_put_options options = put_options(execution->operation);
    *entry = (struct kvstore_entry){0};
    return kvstore_exchange(execution->store, execution->operation->key, execution->value, &options,
                            buffer, capacity, &execution->found, entry, &execution->written);
}

/* The version told is the new one; the old value comes without its own. */
static void run_exchange(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry old = {0};
    struct reply_place place = {.kind = PLACE_NONE};
    result->status = take_value(execution);
    if (result->status == KV_OK)
        result->status = read_into_reply(execution, exchange_reader, &old, &place);
    if (result->status == KV_BUFFER_TOO_SMALL) {
        tell_size_only(result, old.value_bytes);
    } else if (result->status == KV_OK) {
        tell_written(execution);
        result->flags |= execution->found ? WIRE_RESULT_FOUND : 0;
        result->value = kv_slice(NULL, execution->found ? old.value_bytes : 0);
        if (reply_add_placed(execution->reply, result, &place))
            return;
        result->status = KV_IO; /* exchanged, but the window does not take the old value */
        tell_size_only(result, old.value_bytes);
    }
    add_plain(execution);
}

static void run_touch(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    result->status = kvstore_touch(execution->store, execution->operation->key,
                                   execution->operation->expiry_ms, &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    add_plain(execution);
}

/* Scan --------------------------------------------------------------------------------------------- */

static void run_scan(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    struct wire_result *result = &execution->result;
    struct scan_page page;
    if (execution->worker->service->parking && scan_page_takes_long(execution->store, operation))
        worker_expect_long(execution->worker);
    struct reply_place place = reply_largest_place(execution->reply);
    result->status = scan_page_fill(&page, execution->store, operation, &execution->allowance,
                                    place.at, place.capacity);
    for (unsigned i = 0; i < SCAN_TRIES && result->status == KV_BUFFER_TOO_SMALL; i++) {
        place = reply_place(execution->reply, page.refused_bytes);
        if (place.kind == PLACE_NONE)
            break;
        result->status = scan_page_fill(&page, execution->store, operation, &execution->allowance,
                                        place.at, place.capacity);
    }
    size_t used = write_cursor_used(&page.cursor);
    if (result->status == KV_BUFFER_TOO_SMALL) {
        tell_size_only(result, page.refused_bytes);
    } else if (result->status == KV_OK || page.bad_offset != 0) {
        if (page.bad_offset != 0)
            tell_version(result, page.bad_offset);
        tell_number(result, (int64_t)page.next);
        result->value = kv_slice(NULL, used);
        if (reply_add_placed(execution->reply, result, &place))
            return;
        *result = (struct wire_result){.status = KV_BUFFER_TOO_SMALL}; /* as for GET */
        tell_size_only(result, used);
    }
    add_plain(execution);
}

/* The rest ----------------------------------------------------------------------------------------- */

static void run_stats(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    char *text = NULL;
    size_t size = 0;
    worker_expect_long(execution->worker);
    result->status =
        stats_json(execution->worker->service, execution->operation->key, &text, &size);
    if (result->status == KV_OK)
        add_copy(execution, kv_slice(text, size));
    else
        add_plain(execution);
    free(text);
}

static void run_ping(struct execution *execution)
{
    execution->result.status = take_value(execution);
    if (execution->result.status == KV_OK)
        add_copy(execution, execution->value);
    else
        add_plain(execution);
}

/* The reply waits for everything that was appended before now. Where this message has written nothing
 * since its last SYNC, that one counts for both. */
static void run_sync(struct execution *execution)
{
    bool again = execution->synced;
    execution->synced = true;
    for (uint32_t file = 0; !again && file < kvstore_datafiles(execution->store); file++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(execution->store, file, &statistics);
        struct kvstore_ticket ticket = {file, statistics.appended_bytes};
        if (statistics.synced_bytes < statistics.appended_bytes)
            commit_waits_add(&execution->worker->waits, ticket);
    }
    add_plain(execution);
}

static void (*const runners[])(struct execution *) = {
    [WIRE_OP_GET] = run_get,           [WIRE_OP_EXISTS] = run_exists, [WIRE_OP_PUT] = run_put,
    [WIRE_OP_DELETE] = run_delete,     [WIRE_OP_ADD] = run_add,       [WIRE_OP_APPEND] = run_append,
    [WIRE_OP_EXCHANGE] = run_exchange, [WIRE_OP_TOUCH] = run_touch,   [WIRE_OP_SCAN] = run_scan,
    [WIRE_OP_STATS] = run_stats,       [WIRE_OP_PING] = run_ping,     [WIRE_OP_SYNC] = run_sync,
};

_Static_assert(sizeof runners / sizeof runners[0] == STATISTICS_OPCODES,
               "an opcode is not counted");

/* Operations that surely take a microsecond or two. Others may have read a large record, even where
 * nothing came of it. */
#define LIGHT_BYTES 4096u

static bool was_light(const struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    enum wire_opcode opcode = operation->opcode;
    bool plain = opcode == WIRE_OP_GET || opcode == WIRE_OP_EXISTS ||
                 (opcode == WIRE_OP_PUT && (operation->flags & ~WIRE_VALUE_IN_SEGMENT) == 0);
    return plain && execution->result.status == KV_OK &&
           operation->value.size + execution->result.value.size <= LIGHT_BYTES;
}

/* What a write made the store write beyond the value that came with it. */
static uint64_t extra_bytes(const struct execution *execution)
{
    uint64_t written = execution->written.record_bytes;
    uint64_t brought = execution->operation->value.size;
    return written > brought ? written - brought : 0;
}

static void run_operation(struct execution *execution, const struct wire_operation *operation)
{
    execution->operation = operation;
    execution->result = (struct wire_result){.status = KV_OK};
    execution->written.record_bytes = 0;
    uint16_t results_before = execution->reply->results;
    runners[operation->opcode](execution);
    execution->begun = true;
    allowance_note(&execution->allowance, was_light(execution), extra_bytes(execution));
    if (execution->reply->results == results_before)
        return; /* not executed: its turn comes in another message */
    struct worker_statistics *statistics = execution->worker->statistics;
    statistics_add(&statistics->operations[operation->opcode], 1);
    statistics_add(&statistics->statuses[execution->result.status], 1);
}

/* What the message has left over -------------------------------------------------------------------- */

/* KV_OK: the next operation is to be executed. */
static enum kv_status look(struct execution *execution)
{
    if (!execution->begun || !allowance_is_due(&execution->allowance))
        return execution->allowance.verdict;
    bool takes_long;
    enum kv_status status = allowance_look(&execution->allowance, &takes_long);
    if (takes_long)
        worker_expect_long(execution->worker);
    return status;
}

/* The result of an operation that is not executed. A scan that is under way may get a page without
 * entries, to go on from where it is; 0 would tell that it is over. */
static void leave_out(struct execution *execution, const struct wire_operation *operation,
                      enum kv_status status)
{
    struct wire_result result = {.status = status};
    if (status == KV_OVERLOADED && operation->opcode == WIRE_OP_SCAN && operation->cursor != 0) {
        result.status = KV_OK;
        tell_number(&result, (int64_t)operation->cursor);
    }
    reply_add(execution->reply, &result);
    statistics_add(&execution->worker->statistics->statuses[result.status], 1);
}

/* Operations of a message that are decoded together, so that the engine knows which keys come. */
#define ROUND_OPERATIONS 16u

struct round {
    unsigned count;
    struct wire_operation operations[ROUND_OPERATIONS];
};

/* Decodes the next operations, `left` of them at most. Not KV_OK: what follows those of the round is
 * malformed or unknown. */
static enum kv_status round_read(struct round *round, struct read_cursor *operations, unsigned left)
{
    unsigned limit = left < ROUND_OPERATIONS ? left : ROUND_OPERATIONS;
    enum kv_status status = KV_OK;
    for (round->count = 0; round->count < limit; round->count++) {
        status = wire_get_operation(operations, &round->operations[round->count]);
        if (status != KV_OK)
            break;
    }
    return status;
}

/* Whether the reply may end here. */
static bool may_stop(const struct execution *execution)
{
    return execution->reply->may_stop && execution->reply->results > 0;
}

static void round_run(struct execution *execution, const struct round *round)
{
    if (round->count > 1 && execution->allowance.verdict == KV_OK) {
        struct kv_slice keys[ROUND_OPERATIONS];
        for (unsigned i = 0; i < round->count; i++)
            keys[i] = round->operations[i].key;
        kvstore_prefetch(execution->store, keys, round->count);
    }
    for (unsigned i = 0; i < round->count && !execution->stopped; i++) {
        enum kv_status status = look(execution);
        if (reply_is_full(execution->reply) || (status != KV_OK && may_stop(execution)))
            execution->stopped = true;
        else if (status == KV_OK)
            run_operation(execution, &round->operations[i]);
        else
            leave_out(execution, &round->operations[i], status);
    }
}

/* Results for operations that were not executed. */
static void fill_with_status(struct execution *execution, enum kv_status status)
{
    struct wire_result result = {.status = status};
    while (execution->reply->results_to_come > 0 && !reply_is_full(execution->reply)) {
        reply_add(execution->reply, &result);
        statistics_add(&execution->worker->statistics->statuses[status], 1);
    }
}

enum kv_status execute_request(struct worker *worker, struct session *session,
                               const struct wire_header *request, struct read_cursor *operations,
                               struct reply *reply, const char **sentence)
{
    const struct service *service = worker->service;
    struct execution execution = {
        .worker = worker, .store = service->store, .session = session, .reply = reply};
    struct wire_header whole = *request;
    if (service->options->dispatch == DISPATCH_PROCESS)
        whole.flags = 0; /* all reads of a message are of one moment */
    enum kv_status status =
        reply_start(reply, session, service->budget, worker->reply_reserved, &whole, worker->reply,
                    worker->buffer_bytes, worker->outgoing, worker->buffer_bytes);
    if (status != KV_OK) {
        *sentence = "too many large replies are waiting: fetch those first";
        return status;
    }
    allowance_begin(&execution.allowance, session, request, worker->received_ns,
                    worker->message_ms);
    if (reply->segment && !wire_segment_is_mapped(reply->segment)) /* likewise */
        worker_expect_long(worker);
    for (unsigned done = 0; done < request->count;) {
        struct round round;
        status = round_read(&round, operations, request->count - done);
        round_run(&execution, &round);
        done += round.count;
        if (execution.stopped)
            break;
        if (status == KV_OK)
            continue;
        if (done == 0) {
            reply_abandon(reply);
            *sentence = status == KV_UNSUPPORTED
                            ? "the first operation or one of its flags is unknown"
                            : "the first operation is malformed";
            return status;
        }
        fill_with_status(&execution, status);
        break;
    }
    return KV_OK;
}
