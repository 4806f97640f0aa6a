#include "clientk/queue/queue_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/base/last_error.h"
#include "common/assert/assert.h"
#include "common/report/error.h"

void plan_begin(struct queue_plan *plan)
{
    for (size_t i = 0; i < plan->value_count; i++)
        free(plan->values[i]);
    plan->key_count = plan->guard_count = plan->step_count = plan->value_count = 0;
    plan->no_memory = false;
}

void plan_end(struct queue_plan *plan)
{
    plan_begin(plan);
    for (size_t i = 0; i < PLAN_STEPS; i++)
        clientk_value_free(&plan->results[i].value);
}

struct kv_slice plan_key(struct queue_plan *plan, const char *format, ...)
{
    KV_ASSERT(plan->key_count < sizeof plan->keys / sizeof plan->keys[0]);
    char *key = plan->keys[plan->key_count++];
    size_t used = strlen(plan->prefix);
    memcpy(key, plan->prefix, used);
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(key + used, QUEUE_KEY_BYTES - used, format, arguments);
    va_end(arguments);
    KV_ASSERT(added > 0 && (size_t)added < QUEUE_KEY_BYTES - used);
    return kv_slice(key, used + (size_t)added);
}

size_t plan_room(const struct queue_plan *plan)
{
    return PLAN_STEPS - plan->guard_count - plan->step_count;
}

void plan_guard_version(struct queue_plan *plan, struct kv_slice key, uint64_t version)
{
    KV_ASSERT(plan_room(plan) > 0);
    plan->guards[plan->guard_count++] =
        (struct clientk_guard){.kind = CLIENTK_GUARD_VERSION, .key = key, .version = version};
}

void plan_guard_value(struct queue_plan *plan, struct kv_slice key, struct kv_slice value)
{
    KV_ASSERT(plan_room(plan) > 0);
    plan->guards[plan->guard_count++] =
        (struct clientk_guard){.kind = CLIENTK_GUARD_VALUE, .key = key, .value = value};
}

struct clientk_operation *plan_step(struct queue_plan *plan, enum clientk_opcode opcode,
                                    struct kv_slice key)
{
    KV_ASSERT(plan_room(plan) > 0);
    struct clientk_operation *step = &plan->steps[plan->step_count++];
    *step = (struct clientk_operation){.opcode = opcode, .key = key};
    return step;
}

void plan_put(struct queue_plan *plan, struct kv_slice key, struct kv_slice value)
{
    plan_step(plan, CLIENTK_PUT, key)->value = value;
}

void plan_put_owned(struct queue_plan *plan, struct kv_slice key, void *value, size_t size)
{
    if (!value) {
        plan->no_memory = true;
        return;
    }
    KV_ASSERT(plan->value_count < PLAN_STEPS);
    plan->values[plan->value_count++] = value;
    plan_put(plan, key, kv_slice(value, size));
}

void plan_put_copy(struct queue_plan *plan, struct kv_slice key, struct kv_slice value)
{
    void *copy = malloc(value.size);
    if (copy)
        memcpy(copy, value.data, value.size);
    plan_put_owned(plan, key, copy, value.size);
}

void plan_delete(struct queue_plan *plan, struct kv_slice key)
{
    plan_step(plan, CLIENTK_DELETE, key);
}

void plan_add(struct queue_plan *plan, struct kv_slice key, int64_t delta)
{
    plan_step(plan, CLIENTK_ADD, key)->delta = delta;
}

static enum kv_status plan_check(const struct queue_plan *plan)
{
    return plan->no_memory
               ? kv_error_set(last_error_of_thread(), KV_NO_MEMORY, "no memory for a job")
               : KV_OK;
}

enum kv_status plan_run(struct queue_plan *plan, struct clientk *client,
                        enum clientk_durability durability, bool *done)
{
    const struct clientk_transaction transaction = {.guards = plan->guards,
                                                    .guard_count = plan->guard_count,
                                                    .then = plan->steps,
                                                    .then_count = plan->step_count,
                                                    .durability = durability};
    *done = false;
    plan->told = (struct clientk_transacted){.outcome = CLIENTK_FAILED};
    enum kv_status status = plan_check(plan);
    if (status != KV_OK)
        return status;
    status = clientk_transact(client, &transaction, plan->results, &plan->told);
    *done = status == KV_OK && plan->told.outcome == CLIENTK_DONE;
    return status;
}

bool plan_is_unknown(const struct queue_plan *plan, enum kv_status status)
{
    return status != KV_OK && plan->told.outcome == CLIENTK_UNKNOWN && status != KV_NOT_DURABLE;
}

enum kv_status plan_execute(struct queue_plan *plan, struct clientk *client)
{
    enum kv_status status = plan_check(plan);
    return status == KV_OK ? clientk_execute(client, plan->steps, plan->step_count, plan->results)
                           : status;
}
