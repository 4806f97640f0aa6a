#include "serverk/execute/writes.h"

#include <stdatomic.h>

#include "serverk/execute/execution_internal.h"

enum kv_status take_request_value(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    size_t size = operation->value.size;
    execution->value = operation->value;
    if (size > kvstore_max_value_bytes(execution->store))
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

/* The write was applied: its result tells the version, and its durability is seen to. */
static void tell_written(struct execution *execution)
{
    execution->synced = false;
    tell_version(&execution->result, execution->written.version);
    enum kvstore_durability durability = live_durability(execution->context->live);
    unsigned flags = execution->operation->flags;
    if (durability == KVSTORE_SYNC_ALWAYS || (flags & WIRE_SYNC_ALWAYS))
        commit_waits_add(&execution->context->waits, execution->written.ticket);
    else if (durability == KVSTORE_SYNC_NONE && (flags & WIRE_SYNC_INTERVAL))
        kvstore_request_sync(execution->store, execution->written.ticket); /* sooner than asked */
}

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

void execute_put(struct execution *execution)
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

void execute_delete(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    result->status = kvstore_delete(execution->store, execution->operation->key,
                                    execution->operation->version, &execution->written);
    if (result->status == KV_OK)
        tell_written(execution);
    add_plain(execution);
}

void execute_add(struct execution *execution)
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
        tell_number(result, sum);
    add_plain(execution);
}

void execute_append(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    uint32_t value_bytes = 0;
    result->status = take_request_value(execution);
    if (result->status == KV_OK)
        result->status = kvstore_append(execution->store, execution->operation->key,
                                        execution->value, &value_bytes, &execution->written);
    if (result->status == KV_OK) {
        tell_written(execution);
        tell_number(result, value_bytes);
    }
    add_plain(execution);
}

/* The version told is the new one; the old value comes without its own. */
void execute_exchange(struct execution *execution)
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
        tell_size_only(result, old.value_bytes);
    } else if (result->status == KV_OK) {
        tell_written(execution);
        if (!found)
            execution->place = reply_place(execution->reply, 0);
        result->flags |= found ? WIRE_RESULT_FOUND : 0;
        result->value = kv_slice(NULL, found ? old.value_bytes : 0);
        if (reply_add_placed(execution->reply, result, &execution->place))
            return;
        result->status = KV_IO; /* exchanged, but the window does not take the old value */
        tell_size_only(result, old.value_bytes);
    }
    add_plain(execution);
}

void execute_touch(struct execution *execution)
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
void execute_sync(struct execution *execution)
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
