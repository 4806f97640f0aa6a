#include "bridges/cluster/natskv/nats_plan.h"

#include <string.h>

#include "bridges/cluster/natskv/natskv_options.h"

_Static_assert(KVSTORE_MAX_TRANSACTION_STEPS <= UINT8_MAX, "key_of has numbers of keys");

static bool plan_step_writes(const struct kvstore_step *step)
{
    return step->kind != KVSTORE_STEP_GET && step->kind != KVSTORE_STEP_EXISTS;
}

/* Returns true if the step does the same whatever the entry is. */
static bool is_blind(const struct nats_plan *plan, const struct kvstore_step *step)
{
    return step->kind == KVSTORE_STEP_PUT && !step->keep_expiry && !plan->after_reading;
}

static enum kv_status blame_part(struct nats_plan *plan, bool in_guard, uint32_t at,
                                 enum kv_status status)
{
    plan->told->in_guard = in_guard;
    plan->told->at = at;
    return status;
}

/* Beginning ------------------------------------------------------------------------------------ */

static uint8_t find_or_add_key(struct nats_plan *plan, struct kv_slice key, bool is_read)
{
    uint32_t at = 0;
    while (at < plan->key_count && !kv_slice_equal(plan->keys[at].key, key))
        at++;
    if (at == plan->key_count)
        plan->keys[plan->key_count++] = (struct planned_key){.key = key};
    plan->keys[at].is_read |= is_read;
    return (uint8_t)at;
}

static bool is_planned_twice(const struct kvstore_step *steps, uint32_t at)
{
    for (uint32_t i = 0; i < at && plan_step_writes(&steps[at]); i++)
        if (plan_step_writes(&steps[i]) && kv_slice_equal(steps[i].key, steps[at].key))
            return true;
    return false;
}

static enum kv_status take_planned_step(struct nats_plan *plan, const struct kvstore_step *steps,
                                        uint32_t at, uint8_t *key_of)
{
    const struct kvstore_step *step = &steps[at];
    if ((unsigned)step->kind >= KVSTORE_STEPS || is_planned_twice(steps, at))
        return KV_USAGE;
    if (step->key.size == 0)
        return KV_BAD_KEY;
    if (step->value.size > plan->max_value_bytes)
        return KV_VALUE_TOO_BIG;
    *key_of = find_or_add_key(plan, step->key, !is_blind(plan, step));
    return KV_OK;
}

static enum kv_status take_list(struct nats_plan *plan, bool held, uint8_t *key_of)
{
    const struct kvstore_transaction *asked = plan->asked;
    const struct kvstore_step *steps = held ? asked->then : asked->otherwise;
    uint32_t count = held ? asked->then_count : asked->otherwise_count;
    plan->told->held = held;
    for (uint32_t i = 0; i < count; i++) {
        enum kv_status status = take_planned_step(plan, steps, i, &key_of[i]);
        if (status != KV_OK)
            return blame_part(plan, false, i, status);
    }
    return KV_OK;
}

enum kv_status nats_plan_begin(struct nats_plan *plan, const struct kvstore_transaction *asked,
                               struct kvstore_step_result *results, struct kvstore_transacted *told,
                               uint32_t max_value_bytes)
{
    plan->asked = asked;
    plan->results = results;
    plan->told = told;
    plan->max_value_bytes = max_value_bytes;
    plan->key_count = plan->writes = 0;
    *told = (struct kvstore_transacted){.at = UINT32_MAX};
    if ((uint64_t)asked->guard_count + asked->then_count + asked->otherwise_count >
        KVSTORE_MAX_TRANSACTION_STEPS)
        return KV_USAGE;
    for (uint32_t i = 0; i < asked->guard_count; i++) {
        const struct kvstore_guard *guard = &asked->guards[i];
        if ((unsigned)guard->kind >= KVSTORE_GUARDS)
            return blame_part(plan, true, i, KV_USAGE);
        if (guard->key.size == 0)
            return blame_part(plan, true, i, KV_BAD_KEY);
        plan->key_of[i] = find_or_add_key(plan, guard->key, true);
    }
    enum kv_status status = take_list(plan, true, plan->key_of + asked->guard_count);
    if (status != KV_OK)
        return status;
    return take_list(plan, false, plan->key_of + asked->guard_count + asked->then_count);
}

void nats_plan_blame_key(struct nats_plan *plan, uint32_t key)
{
    const struct kvstore_transaction *asked = plan->asked;
    uint32_t at = 0;
    while (plan->key_of[at] != key)
        at++;
    bool in_guard = at < asked->guard_count;
    plan->told->held = in_guard || at < asked->guard_count + asked->then_count;
    if (!in_guard)
        at -= asked->guard_count + (plan->told->held ? 0 : asked->then_count);
    blame_part(plan, in_guard, at, KV_OK);
}

/* Judging -------------------------------------------------------------------------------------- */

static uint64_t version_of(const struct nats_entry *entry)
{
    return entry->present ? entry->sequence * NATSKV_FOLD : 0;
}

static bool guard_holds(const struct kvstore_guard *guard, const struct nats_entry *entry)
{
    switch (guard->kind) {
    case KVSTORE_GUARD_PRESENT:
        return entry->present;
    case KVSTORE_GUARD_ABSENT:
        return !entry->present;
    case KVSTORE_GUARD_VERSION:
        return version_of(entry) == guard->version;
    case KVSTORE_GUARD_VALUE:
    case KVSTORE_GUARDS:
        break;
    }
    return entry->present && kv_slice_equal(entry->value, guard->value);
}

/* Looks at the guards up to the first that does not hold. */
static void judge_guards(struct nats_plan *plan)
{
    const struct kvstore_transaction *asked = plan->asked;
    plan->told->held = true;
    plan->told->guard = 0;
    for (uint32_t i = 0; i < asked->guard_count && plan->told->held; i++) {
        struct planned_key *key = &plan->keys[plan->key_of[i]];
        key->matters = true;
        plan->told->held = guard_holds(&asked->guards[i], &key->entry);
        plan->told->guard = plan->told->held ? 0 : i;
    }
}

/* Returns false if the value that was found has no place. */
static bool plan_read(struct nats_plan *plan, const struct kvstore_step *step, uint32_t at,
                      const struct nats_entry *entry)
{
    struct kvstore_step_result *result = &plan->results[at];
    result->status = entry->present ? KV_OK : KV_NOT_FOUND;
    if (!entry->present)
        return true;
    result->entry = (struct kvstore_entry){.version = version_of(entry),
                                           .expiry_ms = entry->expiry_ms,
                                           .value_bytes = (uint32_t)entry->value.size};
    if (step->kind == KVSTORE_STEP_EXISTS)
        return true;
    const struct kvstore_transaction *asked = plan->asked;
    void *place = asked->place ? asked->place(asked->context, at, entry->value.size) : NULL;
    if (!place)
        result->status = KV_BUFFER_TOO_SMALL;
    else if (entry->value.size > 0)
        memcpy(place, entry->value.data, entry->value.size);
    return place != NULL;
}

static enum engine_opcode opcode_of_step(const struct kvstore_step *step)
{
    static const enum engine_opcode opcodes[KVSTORE_STEPS] = {
        [KVSTORE_STEP_PUT] = ENGINE_PUT,       [KVSTORE_STEP_DELETE] = ENGINE_DELETE,
        [KVSTORE_STEP_ADD] = ENGINE_ADD,       [KVSTORE_STEP_APPEND] = ENGINE_APPEND,
        [KVSTORE_STEP_TOUCH] = ENGINE_TOUCH,   [KVSTORE_STEP_GET] = ENGINE_GET,
        [KVSTORE_STEP_EXISTS] = ENGINE_EXISTS,
    };
    return opcodes[step->kind];
}

static enum kv_status plan_write(struct nats_plan *plan, const struct kvstore_step *step,
                                 uint32_t at, struct planned_key *key)
{
    struct kvstore_step_result *result = &plan->results[at];
    struct engine_operation operation = {
        .opcode = opcode_of_step(step),
        .key = step->key,
        .value = step->value,
        .put = {.expiry_ms = step->expiry_ms, .keep_expiry = step->keep_expiry},
        .add = step->add,
        .delta = step->delta};
    nats_rewrite_run(&key->rewrite, key->is_read ? &key->entry : NULL, &operation,
                     plan->max_value_bytes);
    result->status = operation.status;
    result->number = operation.number;
    key->result = result;
    key->is_written = operation.status == KV_OK;
    plan->writes += key->is_written;
    bool is_nothing = operation.status == KV_NOT_FOUND && step->kind != KVSTORE_STEP_ADD;
    return is_nothing ? KV_OK : operation.status;
}

static void forget_plan(struct nats_plan *plan)
{
    plan->writes = 0;
    for (uint32_t i = 0; i < plan->key_count; i++) {
        plan->keys[i].matters = plan->keys[i].is_written = false;
        plan->keys[i].result = NULL;
        nats_rewrite_free(&plan->keys[i].rewrite);
    }
}

enum kv_status nats_plan_judge(struct nats_plan *plan)
{
    const struct kvstore_transaction *asked = plan->asked;
    bool lacks_room = false;
    blame_part(plan, false, UINT32_MAX, KV_OK);
    forget_plan(plan);
    judge_guards(plan);
    bool held = plan->told->held;
    const struct kvstore_step *steps = held ? asked->then : asked->otherwise;
    uint32_t count = held ? asked->then_count : asked->otherwise_count;
    const uint8_t *key_of = plan->key_of + asked->guard_count + (held ? 0 : asked->then_count);
    for (uint32_t i = 0; i < count; i++) {
        struct planned_key *key = &plan->keys[key_of[i]];
        enum kv_status status = KV_OK;
        plan->results[i] = (struct kvstore_step_result){0};
        bool mattered = key->matters;
        key->matters |= !is_blind(plan, &steps[i]);
        if (plan_step_writes(&steps[i]))
            status = plan_write(plan, &steps[i], i, key);
        else
            lacks_room |= !plan_read(plan, &steps[i], i, &key->entry);
        if (status != KV_OK)
            return blame_part(plan, false, i, status);
        if (plan->after_reading && plan_step_writes(&steps[i]) && !key->is_written)
            key->matters = mattered; /* there is no message that might be late */
    }
    return lacks_room ? KV_BUFFER_TOO_SMALL : KV_OK;
}

void nats_plan_free(struct nats_plan *plan)
{
    forget_plan(plan);
    for (uint32_t i = 0; i < plan->key_count; i++)
        nats_entry_free(&plan->keys[i].entry);
}
