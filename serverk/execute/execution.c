#include "serverk/execute/execution.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/execute/backup.h"
#include "serverk/execute/execution_internal.h"
#include "serverk/execute/inquiries.h"
#include "serverk/execute/reads.h"
#include "serverk/execute/watch.h"
#include "serverk/execute/writes.h"
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

/* Operations ----------------------------------------------------------------------------------- */

const operation_runner execution_runners[] = {
    [WIRE_OP_GET] = execute_get,           [WIRE_OP_EXISTS] = execute_exists,
    [WIRE_OP_PUT] = execute_put,           [WIRE_OP_DELETE] = execute_delete,
    [WIRE_OP_ADD] = execute_add,           [WIRE_OP_APPEND] = execute_append,
    [WIRE_OP_EXCHANGE] = execute_exchange, [WIRE_OP_TOUCH] = execute_touch,
    [WIRE_OP_SCAN] = execute_scan,         [WIRE_OP_STATS] = execute_stats,
    [WIRE_OP_PING] = execute_ping,         [WIRE_OP_SYNC] = execute_sync,
    [WIRE_OP_BACKUP] = execute_backup,     [WIRE_OP_ADMIN] = execute_admin,
    [WIRE_OP_WATCH] = execute_watch,
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

/* What a write made the store write beyond the value that came with it. */
static uint64_t extra_bytes(const struct execution *execution)
{
    uint64_t written = execution->written.record_bytes;
    uint64_t brought = execution->operation->value.size;
    return written > brought ? written - brought : 0;
}

/* Of a user that is restricted. Kept out of the way of the others. */
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
           opcode == WIRE_OP_APPEND || opcode == WIRE_OP_EXCHANGE || opcode == WIRE_OP_TOUCH;
}

/* Where there is a gate. Kept out of the way of the others. */
__attribute__((noinline)) static bool passes_gate(struct execution *execution)
{
    const struct write_gate *gate = execution->context->gate;
    uint32_t wait_ms =
        is_write_opcode(execution->operation->opcode) ? gate->hold_up(gate->context) : 0;
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
    execution->context->written_bytes += execution->written.record_bytes;
    allowance_note(&execution->allowance, was_light(execution), extra_bytes(execution));
    if (execution->reply->results == results_before || execution->refusal)
        return; /* not executed: its turn comes in another message; or the message fails */
    struct worker_statistics *statistics = execution->context->statistics;
    statistics_add(&statistics->operations[operation->opcode], 1);
    statistics_add(&statistics->statuses[execution->result.status], 1);
}

/* What the message has left over --------------------------------------------------------------- */

/* KV_OK: the next operation is to be executed. */
static enum kv_status look_at_operation(struct execution *execution)
{
    if (!execution->begun || !allowance_is_due(&execution->allowance))
        return execution->allowance.verdict;
    return allowance_look(&execution->allowance);
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

/* Whether the reply may end here. */
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
        enum kv_status status = look_at_operation(execution);
        if (reply_is_full(execution->reply) || (status != KV_OK && may_stop(execution)))
            execution->stopped = true;
        else if (status == KV_OK)
            run_operation(execution, &group->operations[i]);
        else
            leave_out(execution, &group->operations[i], status);
    }
}

/* Results for operations that were not executed. */
static void fill_with_status(struct execution *execution, enum kv_status status)
{
    struct wire_result result = {.status = status};
    while (execution->reply->results_to_come > 0 && !reply_is_full(execution->reply)) {
        reply_add(execution->reply, &result);
        statistics_add(&execution->context->statistics->statuses[status], 1);
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
        fill_with_status(&execution, status);
        break;
    }
    KV_ASSERT(reply->may_stop || reply->results == request->count || context->waits_on);
    if (!execution.refusal)
        return KV_OK;
    reply_abandon(reply);
    *sentence = execution.refusal;
    return KV_OVERLOADED;
}
