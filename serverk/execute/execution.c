#include "serverk/execute/execution.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/execute/execution_internal.h"
#include "serverk/session/access.h"

/* Results -------------------------------------------------------------------------------------- */

void add_plain(struct execution *execution)
{
    struct reply *reply = execution->reply;
    bool lacks_room = execution->result.status == KV_BUFFER_TOO_SMALL;
    execution->stopped = lacks_room && reply->may_stop;
    if (!execution->stopped || reply->results == 0)
        reply_add(reply, &execution->result);
}

/* Reads ---------------------------------------------------------------------------------------- */

void *show_place(void *context, size_t bytes)
{
    struct execution *execution = context;
    execution->place = reply_place(execution->reply, bytes);
    if (execution->place.kind == PLACE_NONE)
        return NULL;
    return execution->place.at;
}

static inline void count_read_lookup(struct execution *execution)
{
    struct worker_statistics *statistics = execution->context->statistics;
    if (execution->result.status == KV_NOT_FOUND)
        statistics_add(&statistics->misses, 1);
    else
        statistics_add(&statistics->hits, 1);
}

static void execute_get(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry entry;
    result->status =
        kvstore_get_to(execution->store, execution->operation->key, show_place, execution, &entry);
    count_read_lookup(execution);
    if (result->status == KV_OK) {
        result_tell_entry(result, &entry);
        result->value = kv_slice(NULL, entry.value_bytes);
        if (reply_add_placed(execution->reply, result, &execution->place))
            return;
        result->status = KV_BUFFER_TOO_SMALL; /* the window does not take it */
        result_tell_size(result, entry.value_bytes);
    } else if (result->status == KV_BUFFER_TOO_SMALL) {
        result_tell_entry(result, &entry);
        result_tell_size(result, entry.value_bytes);
    }
    add_plain(execution);
}

static void execute_exists(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry entry;
    result->status = kvstore_get(execution->store, execution->operation->key, NULL, 0, &entry);
    count_read_lookup(execution);
    if (result->status == KV_OK) {
        result_tell_entry(result, &entry);
        result_tell_size(result, entry.value_bytes);
    }
    add_plain(execution);
}

/* Writes, and SYNC ----------------------------------------------------------------------------- */

struct kvstore_put_options operation_put_options(const struct wire_operation *operation)
{
    return (struct kvstore_put_options){
        .condition = operation->flags & WIRE_IF_ABSENT     ? KVSTORE_IF_ABSENT
                     : operation->flags & WIRE_IF_PRESENT  ? KVSTORE_IF_PRESENT
                     : operation->flags & WIRE_HAS_VERSION ? KVSTORE_IF_VERSION
                                                           : KVSTORE_ALWAYS,
        .version = operation->version,
        .give_version = operation->flags & WIRE_GIVE_VERSION ? operation->version : 0,
        .expiry_ms = operation->expiry_ms,
        .keep_expiry = operation->flags & WIRE_KEEP_EXPIRY};
}

struct kvstore_add_options operation_add_options(const struct wire_operation *operation)
{
    bool bounded = operation->flags & WIRE_HAS_BOUNDS;
    return (struct kvstore_add_options){.has_min = bounded,
                                        .has_max = bounded,
                                        .if_present = !(operation->flags & WIRE_CREATE),
                                        .min = operation->min,
                                        .max = operation->max,
                                        .initial = operation->initial,
                                        .expiry_ms = operation->expiry_ms,
                                        .canonical = operation->flags & WIRE_CANONICAL};
}

enum kv_status take_request_value(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    size_t size = operation->value.size;
    size_t extra_bytes = wire_extra_value_bytes(operation->opcode);
    execution->value = operation->value;
    if (size > live_max_value_bytes(execution->context->live) + extra_bytes)
        return KV_VALUE_TOO_BIG;
    if (!(operation->flags & WIRE_VALUE_IN_SEGMENT))
        return KV_OK;
    const struct wire_segment *segment = atomic_load(&execution->session->segment);
    if (!segment)
        return KV_BAD_REQUEST;
    struct execution_context *context = execution->context;
    statistics_add(&context->statistics->bytes_in, size); /* those of messages are in */
    execution->value.data = wire_segment_at(segment, operation->value_offset, size);
    if (execution->value.data)
        return KV_OK;
    execution->value.data = context->incoming;
    if (size > context->incoming_used)
        context->incoming_used = size;
    return wire_segment_read(segment, operation->value_offset, context->incoming, size)
               ? KV_OK
               : KV_BAD_REQUEST;
}

void see_to_durability(struct execution *execution, struct kvstore_ticket ticket)
{
    execution->synced = false;
    enum kvstore_durability durability = live_durability(execution->context->live);
    unsigned flags = execution->operation->flags;
    if (durability == KVSTORE_SYNC_ALWAYS || (flags & WIRE_SYNC_ALWAYS))
        commit_waits_add(&execution->context->waits, ticket);
    else if (durability == KVSTORE_SYNC_NONE && (flags & WIRE_SYNC_INTERVAL))
        kvstore_request_sync(execution->store, ticket); /* sooner than asked */
}

/* The write was applied: its result tells the version, and its durability is seen to. */
static void tell_written(struct execution *execution)
{
    result_tell_version(&execution->result, execution->written.version);
    see_to_durability(execution, execution->written.ticket);
}

static void execute_put(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_put_options options = operation_put_options(execution->operation);
    result->status = take_request_value(execution);
    if (result->status == KV_OK)
        result->status = kvstore_put(execution->store, execution->operation->key, execution->value,
                                     &options, &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    add_plain(execution);
}

static void execute_delete(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    result->status = kvstore_delete(execution->store, execution->operation->key,
                                    execution->operation->version, &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    add_plain(execution);
}

static void execute_add(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    struct kvstore_add_options options = operation_add_options(operation);
    struct wire_result *result = &execution->result;
    int64_t sum = 0;
    result->status = kvstore_add(execution->store, operation->key, operation->delta, &options, &sum,
                                 &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    if (result->status == KV_OK || result->status == KV_OUT_OF_BOUNDS)
        result_tell_number(result, sum);
    add_plain(execution);
}

static void execute_append(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    uint32_t value_bytes = 0;
    result->status = take_request_value(execution);
    if (result->status == KV_OK)
        result->status = kvstore_append(execution->store, execution->operation->key,
                                        execution->value, &value_bytes, &execution->written);
    if (result->status == KV_OK) {
        tell_written(execution);
        result_tell_number(result, value_bytes);
    }
    add_plain(execution);
}

/* The version told is the new one; the old value comes without its own. */
static void execute_exchange(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry old = {0};
    struct kvstore_put_options options = operation_put_options(execution->operation);
    bool found = false;
    result->status = take_request_value(execution);
    if (result->status == KV_OK)
        result->status =
            kvstore_exchange_to(execution->store, execution->operation->key, execution->value,
                                &options, show_place, execution, &found, &old, &execution->written);
    if (result->status == KV_BUFFER_TOO_SMALL) {
        result_tell_size(result, old.value_bytes);
    } else if (result->status == KV_OK) {
        tell_written(execution);
        if (!found)
            execution->place = reply_place(execution->reply, 0);
        result->flags |= found ? WIRE_RESULT_FOUND : 0;
        result->value = kv_slice(NULL, found ? old.value_bytes : 0);
        if (reply_add_placed(execution->reply, result, &execution->place))
            return;
        result->status = KV_IO; /* exchanged, but the window does not take the old value */
        result_tell_size(result, old.value_bytes);
    }
    add_plain(execution);
}

static void execute_touch(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    result->status = kvstore_touch(execution->store, execution->operation->key,
                                   execution->operation->expiry_ms, &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    add_plain(execution);
}

/* The reply waits for everything that was appended before now. Where this message has written
 * nothing since its last SYNC, that one counts for both. */
static void execute_sync(struct execution *execution)
{
    bool again = execution->synced;
    execution->synced = true;
    for (uint32_t file = 0; !again && file < kvstore_datafiles(execution->store); file++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(execution->store, file, &statistics);
        struct kvstore_ticket ticket = {file, statistics.appended_bytes};
        if (statistics.synced_bytes < statistics.appended_bytes)
            commit_waits_add(&execution->context->waits, ticket);
    }
    add_plain(execution);
}

/* Operations ----------------------------------------------------------------------------------- */

const operation_runner execution_runners[] = {
    [WIRE_OP_GET] = execute_get,
    [WIRE_OP_EXISTS] = execute_exists,
    [WIRE_OP_PUT] = execute_put,
    [WIRE_OP_DELETE] = execute_delete,
    [WIRE_OP_ADD] = execute_add,
    [WIRE_OP_APPEND] = execute_append,
    [WIRE_OP_EXCHANGE] = execute_exchange,
    [WIRE_OP_TOUCH] = execute_touch,
    [WIRE_OP_SCAN] = execute_scan,
    [WIRE_OP_STATS] = execute_stats,
    [WIRE_OP_PING] = execute_ping,
    [WIRE_OP_SYNC] = execute_sync,
    [WIRE_OP_BACKUP] = execute_backup,
    [WIRE_OP_ADMIN] = execute_admin,
    [WIRE_OP_WATCH] = execute_watch,
    [WIRE_OP_TRANSACT] = execute_transact,
    [WIRE_OP_RANGE] = execute_range,
    [WIRE_OP_RANGE_COUNT] = execute_range_count,
    [WIRE_OP_RANGE_DELETE] = execute_range_delete,
};

_Static_assert(sizeof execution_runners / sizeof execution_runners[0] == STATISTICS_OPCODES,
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

/* Checks the operation of a restricted user. Kept out of the way of other users' operations. */
__attribute__((noinline)) static bool is_operation_permitted(struct execution *execution)
{
    struct access_user *user = execution->session->access;
    execution->result.status = execution->context->waiting
                                   ? access_check_again(user, execution->operation)
                                   : access_check(user, execution->operation);
    return execution->result.status == KV_OK;
}

static bool is_write_opcode(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_PUT || opcode == WIRE_OP_DELETE || opcode == WIRE_OP_ADD ||
           opcode == WIRE_OP_APPEND || opcode == WIRE_OP_EXCHANGE || opcode == WIRE_OP_TOUCH ||
           opcode == WIRE_OP_RANGE_DELETE;
}

bool passes_write_gate(struct execution *execution)
{
    const struct write_gate *gate = execution->context->gate;
    uint32_t wait_ms = gate->hold_up(gate->context);
    if (wait_ms == 0)
        return true;
    if (wait_ms != WRITE_GATE_CLOSED) {
        clock_sleep_ms(wait_ms);
        return true;
    }
    /* What is behind it in the message is not executed before it: order is kept. */
    execution->result.status = KV_OVERLOADED;
    execution->allowance.verdict = KV_OVERLOADED;
    if (execution->request->count == 1)
        execution->refusal = gate->sentence;
    return false;
}

/* Kept out of the way where there is no gate. A transaction that writes passes it later. */
__attribute__((noinline)) static bool passes_gate(struct execution *execution)
{
    return !is_write_opcode(execution->operation->opcode) || passes_write_gate(execution);
}

static void run_operation(struct execution *execution, const struct wire_operation *operation)
{
    KV_ASSERT(operation->opcode > 0 && operation->opcode < STATISTICS_OPCODES);
    execution->operation = operation;
    execution->result = (struct wire_result){.status = KV_OK};
    execution->written.record_bytes = 0;
    uint16_t results_before = execution->reply->results;
    if ((execution->session->access && !is_operation_permitted(execution)) ||
        (execution->context->gate && !passes_gate(execution)))
        add_plain(execution);
    else
        execution->context->runners[operation->opcode](execution);
    KV_ASSERT(execution->reply->results <= results_before + 1);
    KV_ASSERT(execution->reply->results > results_before || execution->stopped ||
              execution->context->waits_on);
    execution->begun = true;
    uint64_t written = execution->written.record_bytes, brought = operation->value.size;
    execution->context->written_bytes += written;
    allowance_note(&execution->allowance, was_light(execution),
                   written > brought ? written - brought : 0);
    if (execution->reply->results == results_before || execution->refusal)
        return; /* not executed: its turn comes in another message; or the message fails */
    struct worker_statistics *statistics = execution->context->statistics;
    statistics_add(&statistics->operations[operation->opcode], 1);
    statistics_add(&statistics->statuses[execution->result.status], 1);
}

/* What the message has left over --------------------------------------------------------------- */

/* The result of an operation that is not executed. A scan that is under way may get a page without
 * entries, to go on from where it is; 0 would tell that it is over. */
static void leave_out(struct execution *execution, const struct wire_operation *operation,
                      enum kv_status status)
{
    struct wire_result result = {.status = status};
    if (status == KV_OVERLOADED && operation->opcode == WIRE_OP_SCAN && operation->cursor != 0) {
        result.status = KV_OK;
        result_tell_number(&result, (int64_t)operation->cursor);
    }
    reply_add(execution->reply, &result);
    statistics_add(&execution->context->statistics->statuses[result.status], 1);
}

/* Operations of a message that are decoded together, so that the engine knows which keys come. */
#define GROUP_OPERATIONS 16u

struct operation_group {
    unsigned count;
    struct wire_operation operations[GROUP_OPERATIONS];
};

/* Decodes the next operations, `left` of them at most. Not KV_OK: what follows those of the group
 * is malformed or unknown. */
static enum kv_status read_group(struct operation_group *group, struct read_cursor *operations,
                                 unsigned left)
{
    unsigned limit = left < GROUP_OPERATIONS ? left : GROUP_OPERATIONS;
    enum kv_status status = KV_OK;
    for (group->count = 0; group->count < limit; group->count++) {
        status = wire_get_operation(operations, &group->operations[group->count]);
        if (status != KV_OK)
            break;
    }
    return status;
}

/* Returns whether the reply may end here. */
static bool may_stop(const struct execution *execution)
{
    return execution->reply->may_stop && execution->reply->results > 0;
}

static void run_group(struct execution *execution, const struct operation_group *group)
{
    if (group->count > 1 && execution->allowance.verdict == KV_OK) {
        struct kv_slice keys[GROUP_OPERATIONS];
        for (unsigned i = 0; i < group->count; i++)
            keys[i] = group->operations[i].key;
        kvstore_prefetch(execution->store, keys, group->count);
    }
    for (unsigned i = 0; i < group->count && !execution->stopped; i++) {
        enum kv_status status = execution->begun && allowance_is_due(&execution->allowance)
                                    ? allowance_look(&execution->allowance)
                                    : execution->allowance.verdict;
        if (reply_is_full(execution->reply) || (status != KV_OK && may_stop(execution)))
            execution->stopped = true;
        else if (status == KV_OK)
            run_operation(execution, &group->operations[i]);
        else
            leave_out(execution, &group->operations[i], status);
    }
}

/* Builds the reply's start. */
static enum kv_status begin_reply(struct execution *execution, const struct wire_header *request)
{
    const struct execution_context *context = execution->context;
    struct wire_header whole = *request;
    if (context->one_snapshot)
        whole.flags = 0;
    enum kv_status status = reply_start(
        execution->reply, execution->session, context->budget, context->reply_reserved, &whole,
        context->reply, context->buffer_bytes, context->outgoing, context->buffer_bytes);
    if (status != KV_OK)
        return status;
    allowance_begin(&execution->allowance, execution->session, request, context->received_ns,
                    context->message_ms);
    return KV_OK;
}

enum kv_status execute_request(struct execution_context *context, struct session *session,
                               const struct wire_header *request, struct read_cursor *operations,
                               struct reply *reply, const char **sentence)
{
    struct execution execution = {.context = context,
                                  .store = context->store,
                                  .session = session,
                                  .reply = reply,
                                  .request = request};
    enum kv_status status = begin_reply(&execution, request);
    if (status != KV_OK) {
        *sentence = "too many large replies are waiting: fetch those first";
        return status;
    }
    for (unsigned done = 0; done < request->count && !execution.stopped;) {
        struct operation_group group;
        status = read_group(&group, operations, request->count - done);
        run_group(&execution, &group);
        done += group.count;
        if (status == KV_OK || execution.stopped)
            continue;
        if (done == 0) {
            reply_abandon(reply);
            *sentence = status == KV_UNSUPPORTED
                            ? "the first operation or one of its flags is unknown"
                            : "the first operation is malformed";
            return status;
        }
        struct wire_result result = {.status = status}; /* of what cannot be executed */
        while (reply->results_to_come > 0 && !reply_is_full(reply)) {
            reply_add(reply, &result);
            statistics_add(&context->statistics->statuses[status], 1);
        }
        break;
    }
    KV_ASSERT(reply->may_stop || reply->results == request->count || context->waits_on);
    if (!execution.refusal)
        return KV_OK;
    reply_abandon(reply);
    *sentence = execution.refusal;
    return KV_OVERLOADED;
}
