/* The calls of clientk.h that are one operation each, and execute. */
#include "common/error.h"
#include "mqkv/clientk.h"

#include "clientk/api/client.h"
#include "clientk/base/last_error.h"
#include "clientk/message/translate.h"
#include "common/clock.h"

static enum kv_status missing(const char *what)
{
    return kv_error_set(last_error_of_thread(), KV_USAGE, "NULL was given as the %s", what);
}

/* Executes the operation with *value as the result's value. */
static enum kv_status execute_into(struct clientk *client, struct task *task,
                                   struct clientk_value *value, bool *found)
{
    if (!value)
        return missing("value");
    struct clientk_result result = {.value = *value};
    enum kv_status status = client_execute_one(client, task, &result);
    *value = result.value;
    if (found)
        *found = result.found;
    return status;
}

enum kv_status clientk_get(struct clientk *client, struct kv_slice key, struct clientk_value *value)
{
    struct task task = {.operation = {.opcode = WIRE_OP_GET, .key = key}};
    return execute_into(client, &task, value, NULL);
}

enum kv_status clientk_exists(struct clientk *client, struct kv_slice key,
                              struct clientk_value *value)
{
    struct task task = {.operation = {.opcode = WIRE_OP_EXISTS, .key = key}};
    struct clientk_value unused = {.size = 0};
    return execute_into(client, &task, value ? value : &unused, NULL);
}

/* Executes an operation whose result has no value; *result may be what else it tells. */
static enum kv_status execute(struct clientk *client, struct task *task,
                              struct clientk_result *result)
{
    *result = (struct clientk_result){.status = KV_OK};
    return client_execute_one(client, task, result);
}

/* The arguments are impossible. */
static enum kv_status refuse(enum kv_status status)
{
    struct kv_error *error = last_error_of_thread();
    error->status = KV_OK;
    return last_error_explain(error, status);
}

/* Executes a write whose result has no value. options NULL: the defaults. */
static enum kv_status execute_write(struct clientk *client, struct task *task,
                                    const struct clientk_write_options *options,
                                    struct clientk_result *result, uint64_t *version)
{
    *result = (struct clientk_result){.status = KV_OK};
    enum kv_status status = options ? translate_write(options, &task->operation) : KV_OK;
    status = status == KV_OK ? execute(client, task, result) : refuse(status);
    if (version)
        *version = result->value.version;
    return status;
}

enum kv_status clientk_put(struct clientk *client, struct kv_slice key, struct kv_slice value,
                           const struct clientk_write_options *options, uint64_t *version)
{
    struct task task = {.operation = {.opcode = WIRE_OP_PUT, .key = key, .value = value}};
    struct clientk_result result;
    return execute_write(client, &task, options, &result, version);
}

enum kv_status clientk_delete(struct clientk *client, struct kv_slice key,
                              const struct clientk_write_options *options, uint64_t *version)
{
    struct task task = {.operation = {.opcode = WIRE_OP_DELETE, .key = key}};
    struct clientk_result result;
    return execute_write(client, &task, options, &result, version);
}

enum kv_status clientk_add(struct clientk *client, struct kv_slice key, int64_t delta,
                           const struct clientk_add_options *options, int64_t *sum,
                           uint64_t *version)
{
    static const struct clientk_add_options defaults;
    struct task task = {.operation = {.opcode = WIRE_OP_ADD, .key = key}};
    struct clientk_result result = {.status = KV_OK};
    enum kv_status status = translate_add(options ? options : &defaults, delta, &task.operation);
    status = status == KV_OK ? execute(client, &task, &result) : refuse(status);
    if (sum)
        *sum = result.number;
    if (version)
        *version = result.value.version;
    return status;
}

enum kv_status clientk_append(struct clientk *client, struct kv_slice key, struct kv_slice suffix,
                              const struct clientk_write_options *options, uint64_t *value_bytes,
                              uint64_t *version)
{
    struct task task = {.operation = {.opcode = WIRE_OP_APPEND, .key = key, .value = suffix}};
    struct clientk_result result;
    enum kv_status status = execute_write(client, &task, options, &result, version);
    if (value_bytes)
        *value_bytes = (uint64_t)result.number;
    return status;
}

enum kv_status clientk_exchange(struct clientk *client, struct kv_slice key, struct kv_slice value,
                                const struct clientk_write_options *options,
                                struct clientk_value *old, bool *found, uint64_t *version)
{
    struct task task = {.operation = {.opcode = WIRE_OP_EXCHANGE, .key = key, .value = value}};
    enum kv_status status = options ? translate_write(options, &task.operation) : KV_OK;
    if (old)
        old->version = 0;
    status = status == KV_OK ? execute_into(client, &task, old, found) : refuse(status);
    if (version)
        *version = old ? old->version : 0;
    return status;
}

enum kv_status clientk_touch(struct clientk *client, struct kv_slice key, uint64_t expiry_ms,
                             const struct clientk_write_options *options, uint64_t *version)
{
    struct task task = {.operation = {.opcode = WIRE_OP_TOUCH, .key = key}};
    struct clientk_result result = {.status = KV_OK};
    if (options && options->expiry_ms != 0)
        return refuse(KV_USAGE); /* one argument says it */
    struct clientk_write_options expiry = options ? *options : (struct clientk_write_options){0};
    expiry.expiry_ms = expiry_ms;
    return execute_write(client, &task, &expiry, &result, version);
}

enum kv_status clientk_stats(struct clientk *client, const char *section,
                             struct clientk_value *json)
{
    if (!json)
        return missing("value");
    struct task task = {.operation = {.opcode = WIRE_OP_STATS,
                                      .key = kv_slice_from_string(section ? section : "")}};
    struct clientk_result result = {.value = *json};
    enum kv_status status = client_execute_one(client, &task, &result);
    *json = result.value;
    return status;
}

/* An operation without key, value or result. */
static enum kv_status execute_bare(struct clientk *client, enum wire_opcode opcode)
{
    struct task task = {.operation = {.opcode = opcode}};
    struct clientk_result result = {.status = KV_OK};
    enum kv_status status = client_execute_one(client, &task, &result);
    clientk_value_free(&result.value);
    return status;
}

enum kv_status clientk_ping(struct clientk *client, uint64_t *round_trip_ns)
{
    uint64_t start_ns = clock_monotonic_ns();
    enum kv_status status = execute_bare(client, WIRE_OP_PING);
    if (round_trip_ns)
        *round_trip_ns = clock_monotonic_ns() - start_ns;
    return status;
}

enum kv_status clientk_sync(struct clientk *client)
{
    return execute_bare(client, WIRE_OP_SYNC);
}

enum kv_status clientk_execute(struct clientk *client, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    if (count > 0 && (!operations || !results))
        return missing(operations ? "results" : "operations");
    return client_execute(client, operations, count, results);
}
