#include "serverk/execute/reads.h"

#include "serverk/execute/execution_internal.h"

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

void execute_get(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry entry;
    result->status =
        kvstore_get_to(execution->store, execution->operation->key, show_place, execution, &entry);
    count_read_lookup(execution);
    if (result->status == KV_OK) {
        put_entry_in_result(result, &entry);
        result->value = kv_slice(NULL, entry.value_bytes);
        if (reply_add_placed(execution->reply, result, &execution->place))
            return;
        result->status = KV_BUFFER_TOO_SMALL; /* the window does not take it */
        tell_size_only(result, entry.value_bytes);
    } else if (result->status == KV_BUFFER_TOO_SMALL) {
        put_entry_in_result(result, &entry);
        tell_size_only(result, entry.value_bytes);
    }
    add_plain(execution);
}

void execute_exists(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct kvstore_entry entry;
    result->status = kvstore_get(execution->store, execution->operation->key, NULL, 0, &entry);
    count_read_lookup(execution);
    if (result->status == KV_OK) {
        put_entry_in_result(result, &entry);
        tell_size_only(result, entry.value_bytes);
    }
    add_plain(execution);
}
