/* The calls of clientk.h that are one operation each, and clientk_execute. */
#include "clientk/api/calls.h"

#include <stdlib.h>
#include <string.h>

#include "clientk/api/threads.h"
#include "clientk/base/handles.h"
#include "clientk/base/last_error.h"
#include "clientk/message/translate.h"
#include "common/assert/assert.h"
#include "common/report/error.h"

/* Executing --------------------------------------------------------------------------------- */

__attribute__((noinline)) static enum kv_status refuse_handle(const struct clientk *client)
{
    struct kv_error *error = last_error_of_thread();
    if (!client)
        return kv_error_set(error, KV_USAGE, "no handle: NULL was given as the client");
    return kv_error_set(error, KV_USAGE,
                        "the handle belongs to the parent process: open one in the child, and "
                        "give the parent's to clientk_abandon");
}

enum kv_status client_check(const struct clientk *client)
{
    if (client && client->fork_generation == handles_fork_generation())
        return KV_OK;
    return refuse_handle(client);
}

/* Executes the call through the combiner of the calling thread. True: the call is to begin anew,
 * with another session: the kernel's limits allow the thread none of its own, so that nothing was
 * sent, and the thread shares the first session now. */
static bool run_call(struct clientk *client, struct call *call)
{
    struct attachment *attachment = thread_attachment(client);
    if (!attachment) {
        call_stop(call, KV_NO_MEMORY, KV_NO_MEMORY);
        return false;
    }
    call->turn.sleeper = attachment->number_in_group;
    combiner_execute(attachment->combiner, call, &attachment->waiter);
    return call->status == KV_LIMIT && !call->sent && thread_share_first_combiner(attachment);
}

/* value_bytes: the size of the value that is expected; 0: it is not known. */
static enum kv_status execute_task(struct clientk *client, struct task *task, size_t value_bytes,
                                   struct clientk_result *result)
{
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    struct kv_error *error = last_error_of_thread();
    error->status = KV_OK;
    struct call call;
    do {
        call_init(&call, client_deadline_ms(client), error);
        call_add(&call, task, result);
        task->value_bytes = value_bytes;
    } while (run_call(client, &call));
    KV_ASSERT(call_finished(&call) && !call.queue.first);
    return result->status == KV_OK ? KV_OK : last_error_explain(error, result->status);
}

enum kv_status client_execute_one(struct clientk *client, struct task *task,
                                  struct clientk_result *result)
{
    return execute_task(client, task, 0, result);
}

enum kv_status client_execute_page(struct clientk *client, struct task *task,
                                   struct clientk_result *result)
{
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    size_t room_bytes = page_room_next(&client->page_room);
    status = execute_task(client, task, room_bytes, result);
    if (status == KV_OK)
        page_room_note(&client->page_room, room_bytes, result->value.size, result->number != 0);
    return status;
}

bool client_server_is_too_old(struct clientk *client)
{
    struct clientk_info info;
    clientk_info(client, &info);
    return !info.in_cluster;
}

/* Tasks that a call has on its stack; more are allocated. */
#define STACK_TASKS 16u

/* Executes operations of a batch as one call, with `tasks`, of which there are `count`, too.
 * Returns KV_OK, or the error that stopped the call. */
static enum kv_status execute_part(struct clientk *client,
                                   const struct clientk_operation *operations, size_t count,
                                   struct clientk_result *results, struct task *tasks)
{
    struct kv_error *error = last_error_of_thread();
    struct call call;
    error->status = KV_OK;
    do {
        call_init(&call, client_deadline_ms(client), error);
        for (size_t i = 0; i < count; i++) {
            enum kv_status status = translate_operation(&operations[i], &tasks[i].operation);
            if (status == KV_OK)
                call_add(&call, &tasks[i], &results[i]);
            else
                result_clear(&results[i], status);
        }
    } while (!call_finished(&call) && run_call(client, &call));
    KV_ASSERT(call_finished(&call) && !call.queue.first);
    return call.status;
}

/* Fills the results of operations that were not begun because of the error `status` before them. */
static void stop_rest(struct clientk_result *results, size_t count, enum kv_status status)
{
    if (status == KV_OUTCOME_UNKNOWN)
        status = KV_NO_SERVER;
    else if (status == KV_TIMEOUT)
        status = KV_DEADLINE;
    for (size_t i = 0; i < count; i++)
        result_clear(&results[i], status);
}

/* Executes the operations in order, as many at a time as a message holds. Returns KV_OK, or the
 * error that stopped the batch. */
static enum kv_status execute_batch(struct clientk *client,
                                    const struct clientk_operation *operations, size_t count,
                                    struct clientk_result *results)
{
    struct task on_stack[STACK_TASKS], *tasks = on_stack;
    size_t capacity = count < WIRE_MAX_OPERATIONS ? count : WIRE_MAX_OPERATIONS;
    struct kv_error *error = last_error_of_thread();
    enum kv_status status = KV_OK;
    if (capacity > STACK_TASKS)
        tasks = malloc(capacity * sizeof *tasks);
    if (!tasks) {
        stop_rest(results, count, KV_NO_MEMORY);
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a batch");
    }
    for (size_t begun = 0; begun < count && status == KV_OK;) {
        size_t part = count - begun < capacity ? count - begun : capacity;
        status = execute_part(client, operations + begun, part, results + begun, tasks);
        begun += part;
        if (status == KV_OK && begun < count && client_settings_interrupted(&client->settings))
            status = kv_error_set(error, KV_DEADLINE, "interrupted before the rest was sent");
        if (status != KV_OK)
            stop_rest(results + begun, count - begun, status);
    }
    if (tasks != on_stack)
        free(tasks);
    return last_error_explain(error, status);
}

/* Calls ------------------------------------------------------------------------------------- */

#define NOTHING kv_slice(NULL, 0)

/* Sets the fields that every operation has. The others are for options. (Clearing them all took
 * longer than encoding the operation.) */
static void task_begin(struct task *task, enum wire_opcode opcode, struct kv_slice key,
                       struct kv_slice value)
{
    task->operation.opcode = opcode;
    task->operation.flags = 0;
    task->operation.key = key;
    task->operation.value = value;
}

/* Clears a result that has no memory for a value. */
static void result_begin(struct clientk_result *result)
{
    result->value.data = NULL;
    result->value.capacity = 0;
    result_clear(result, KV_OK);
}

static enum kv_status refuse_null(const char *what)
{
    return kv_error_set(last_error_of_thread(), KV_USAGE, "NULL was given as the %s", what);
}

/* Executes the operation, whose result has the value *value. *found (may be NULL): as the
 * result's. */
static enum kv_status execute_into(struct clientk *client, struct task *task,
                                   struct clientk_value *value, bool *found)
{
    if (!value)
        return refuse_null("value");
    struct clientk_result result;
    result.found = false;
    result.value = *value;
    enum kv_status status = client_execute_one(client, task, &result);
    *value = result.value;
    if (found)
        *found = result.found;
    return status;
}

/* Reads `key` without a message, its value only if with_bytes: *status is that of the read. False:
 * the read has to go by message. */
static inline bool get_without_message(struct clientk *client, struct kv_slice key, bool with_bytes,
                                       struct clientk_value *value, enum kv_status *status)
{
    if (client_check(client) != KV_OK || !direct_is_on(&client->direct) || !value)
        return false;
    struct attachment *attachment = thread_attachment(client);
    if (!attachment ||
        !direct_get(&client->direct, &attachment->reader, key, with_bytes, value, status))
        return false;
    struct kv_error *error = last_error_of_thread();
    error->status = KV_OK;
    if (*status != KV_OK)
        last_error_explain(error, *status);
    return true;
}

enum kv_status clientk_get(struct clientk *client, struct kv_slice key, struct clientk_value *value)
{
    enum kv_status status;
    if (get_without_message(client, key, true, value, &status))
        return status;
    struct task task;
    task_begin(&task, WIRE_OP_GET, key, NOTHING);
    return execute_into(client, &task, value, NULL);
}

enum kv_status clientk_exists(struct clientk *client, struct kv_slice key,
                              struct clientk_value *value)
{
    enum kv_status status;
    struct clientk_value unused = {.size = 0};
    if (!value)
        value = &unused;
    if (get_without_message(client, key, false, value, &status))
        return status;
    struct task task;
    task_begin(&task, WIRE_OP_EXISTS, key, NOTHING);
    return execute_into(client, &task, value, NULL);
}

/* Executes a write whose *result has no value. options: NULL: the defaults. *version (may be NULL):
 * the entry's new version. */
static enum kv_status execute_write(struct clientk *client, struct task *task,
                                    const struct clientk_write_options *options,
                                    struct clientk_result *result, uint64_t *version)
{
    result_begin(result);
    enum kv_status status = options ? translate_write(options, &task->operation) : KV_OK;
    status = status == KV_OK ? client_execute_one(client, task, result) : status;
    if (version)
        *version = result->value.version;
    return status;
}

enum kv_status clientk_put(struct clientk *client, struct kv_slice key, struct kv_slice value,
                           const struct clientk_write_options *options, uint64_t *version)
{
    struct task task;
    task_begin(&task, WIRE_OP_PUT, key, value);
    struct clientk_result result;
    return execute_write(client, &task, options, &result, version);
}

enum kv_status clientk_delete(struct clientk *client, struct kv_slice key,
                              const struct clientk_write_options *options, uint64_t *version)
{
    struct task task;
    task_begin(&task, WIRE_OP_DELETE, key, NOTHING);
    struct clientk_result result;
    return execute_write(client, &task, options, &result, version);
}

enum kv_status clientk_add(struct clientk *client, struct kv_slice key, int64_t delta,
                           const struct clientk_add_options *options, int64_t *sum,
                           uint64_t *version)
{
    static const struct clientk_add_options defaults;
    struct task task;
    task_begin(&task, WIRE_OP_ADD, key, NOTHING);
    struct clientk_result result;
    result_begin(&result);
    enum kv_status status = translate_add(options ? options : &defaults, delta, &task.operation);
    status = status == KV_OK ? client_execute_one(client, &task, &result) : status;
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
    struct task task;
    task_begin(&task, WIRE_OP_APPEND, key, suffix);
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
    struct task task;
    task_begin(&task, WIRE_OP_EXCHANGE, key, value);
    enum kv_status status = options ? translate_write(options, &task.operation) : KV_OK;
    if (old)
        old->version = 0;
    status = status == KV_OK ? execute_into(client, &task, old, found) : status;
    if (version)
        *version = old ? old->version : 0;
    return status;
}

enum kv_status clientk_touch(struct clientk *client, struct kv_slice key, uint64_t expiry_ms,
                             const struct clientk_write_options *options, uint64_t *version)
{
    struct task task;
    task_begin(&task, WIRE_OP_TOUCH, key, NOTHING);
    struct clientk_result result;
    if (options && options->expiry_ms != 0)
        return kv_error_set(last_error_of_thread(), KV_USAGE,
                            "expiry_ms is an argument of clientk_touch: leave the option 0");
    struct clientk_write_options expiry = options ? *options : (struct clientk_write_options){0};
    expiry.expiry_ms = expiry_ms;
    return execute_write(client, &task, &expiry, &result, version);
}

enum kv_status clientk_stats(struct clientk *client, const char *section,
                             struct clientk_value *json)
{
    if (!json)
        return refuse_null("value");
    struct task task;
    task_begin(&task, WIRE_OP_STATS, kv_slice_from_string(section ? section : ""), NOTHING);
    struct clientk_result result = {.value = *json};
    enum kv_status status = client_execute_one(client, &task, &result);
    *json = result.value;
    return status;
}

enum kv_status clientk_admin(struct clientk *client, const char *command, struct kv_slice argument,
                             struct clientk_value *answer)
{
    if (!command)
        return refuse_null("command");
    struct task task;
    task_begin(&task, WIRE_OP_ADMIN, kv_slice_from_string(command), argument);
    struct clientk_value unused = {.size = 0};
    struct clientk_value *text = answer ? answer : &unused;
    enum kv_status status = execute_into(client, &task, text, NULL);
    if (status == KV_UNSUPPORTED && text->size == 0)
        kv_error_set(last_error_of_thread(), status, "the server is too old for such commands");
    else if (status != KV_OK && text->size > 0)
        kv_error_set(last_error_of_thread(), status, "%.*s", (int)text->size,
                     (const char *)text->data);
    clientk_value_free(&unused);
    return status;
}

/* Executes an operation without key, value or result. */
static enum kv_status execute_bare(struct clientk *client, enum wire_opcode opcode)
{
    struct task task;
    task_begin(&task, opcode, NOTHING, NOTHING);
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
        return refuse_null(operations ? "results" : "operations");
    struct attachment *attachment =
        direct_is_on(&client->direct) ? thread_attachment(client) : NULL;
    size_t done = 0; /* without a message */
    if (attachment)
        done = direct_execute(&client->direct, &attachment->reader, operations, count, results);
    return execute_batch(client, operations + done, count - done, results + done);
}
