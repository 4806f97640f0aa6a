#include "bridges/kresp/session/store_flight.h"

#include "bridges/kresp/session/redis_store.h"
#include "common/assert/assert.h"

/* More bytes than this do not fly. */
#define MAX_FLIGHT_BYTES ((size_t)64 * 1024)

static bool may_fly(const struct clientk_operation *operations, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        switch (operations[i].opcode) {
        case CLIENTK_PUT:
        case CLIENTK_ADD:
        case CLIENTK_APPEND:
        case CLIENTK_DELETE:
        case CLIENTK_TOUCH:
            bytes += operations[i].key.size + operations[i].value.size;
            break;
        default:
            return false;
        }
    }
    return bytes <= MAX_FLIGHT_BYTES;
}

/* Writes give no value: the memory for one stays with the target. */
static void keep_written(struct clientk_result *target, const struct clientk_result *result)
{
    target->status = result->status;
    target->found = result->found;
    target->number = result->number;
    target->value.size = 0;
    target->value.version = result->value.version;
    target->value.expiry_ms = result->value.expiry_ms;
}

/* A clientk_complete, whose tag is the place of the result. */
static void take_result(void *context, void *tag, const struct clientk_result *result)
{
    struct store_flight *flight = context;
    KV_ASSERT(flight->under_way > 0);
    flight->under_way--;
    keep_written(tag, result);
}

void store_flight_free(struct store_flight *flight)
{
    clientk_pipeline_close(flight->pipeline);
}

/* Opens the pipeline once the server has answered, so that nobody waits twice for one that does
 * not. */
static void open_flight(struct store_flight *flight)
{
    flight->pipeline = redis_store_pipeline(flight->store, take_result, flight);
    flight->was_refused = !flight->pipeline;
}

/* Returns true if an operation was refused for what it asks, so that those behind it are executed
 * all the same, as redis_store_execute does. */
static bool is_about_operation(enum kv_status status)
{
    return status == KV_BAD_KEY || status == KV_VALUE_TOO_BIG || status == KV_BAD_REQUEST ||
           status == KV_USAGE;
}

/* Submits the operations, as far as there is a server. */
static void submit_writes(struct store_flight *flight, const struct clientk_operation *operations,
                          size_t count, struct clientk_result *results)
{
    struct clientk_result refused = {.status = KV_OK};
    for (size_t i = 0; i < count; i++) {
        flight->under_way++;
        if (refused.status == KV_OK || is_about_operation(refused.status))
            refused.status = clientk_pipeline_submit(flight->pipeline, &operations[i], &results[i]);
        if (refused.status == KV_OK)
            continue;
        take_result(flight, &results[i], &refused);
        if (refused.status == KV_OUTCOME_UNKNOWN) /* those behind it are not begun */
            refused.status = KV_NO_SERVER;
        else if (refused.status == KV_TIMEOUT)
            refused.status = KV_DEADLINE;
    }
    clientk_pipeline_process(flight->pipeline);
}

bool store_flight_begin(struct store_flight *flight, const struct clientk_operation *operations,
                        size_t count, struct clientk_result *results)
{
    KV_ASSERT(flight->under_way == 0 && count > 0);
    if (may_fly(operations, count) && flight->pipeline) {
        submit_writes(flight, operations, count, results);
        return flight->under_way > 0;
    }
    redis_store_execute(flight->store, operations, count, results);
    if (!flight->pipeline && !flight->was_refused && may_fly(operations, count) &&
        results[count - 1].status == KV_OK)
        open_flight(flight);
    return false;
}

void store_flight_end(struct store_flight *flight)
{
    if (flight->under_way > 0)
        clientk_pipeline_flush(flight->pipeline);
    KV_ASSERT(flight->under_way == 0);
}
