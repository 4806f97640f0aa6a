#include "bridges/cluster/natskv/nats_rewrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/parse.h"
#include "common/time/clock.h"
#include "bridges/cluster/natskv/natskv_options.h"

#define NUMBER_TEXT_BYTES 24u

/* The version of an operation that changed the entry, until its version is known. */
#define CHANGED UINT64_MAX

#define NOT_EXECUTED \
    "not executed: a write of the same key before it, in the same message, has no outcome"

void nats_rewrite_free(struct nats_rewrite *rewrite)
{
    free(rewrite->own);
    *rewrite = (struct nats_rewrite){0};
}

/* Makes room for a value of that size in `own`, and keeps the present value if it lies there. */
static bool reserve(struct nats_rewrite *rewrite, size_t bytes)
{
    if (bytes <= rewrite->own_bytes)
        return true;
    size_t capacity = bytes + bytes / 2 + 64;
    bool is_own = rewrite->own && rewrite->value.data == rewrite->own;
    uint8_t *own = realloc(rewrite->own, capacity);
    if (!own)
        return false;
    rewrite->own = own;
    rewrite->own_bytes = capacity;
    if (is_own)
        rewrite->value.data = own;
    return true;
}

static void change(struct nats_rewrite *rewrite, struct engine_operation *operation,
                   uint64_t expiry_ms)
{
    rewrite->changes++;
    rewrite->expiry_ms = expiry_ms;
    rewrite->present = expiry_ms == 0 || expiry_ms > clock_realtime_ms();
    operation->entry.version = CHANGED;
}

static bool version_holds(const struct nats_rewrite *rewrite, const struct nats_entry *entry,
                          uint64_t version)
{
    return rewrite->changes == 0 && version == entry->sequence * NATSKV_FOLD;
}

static enum kv_status run_put(struct nats_rewrite *rewrite, const struct nats_entry *entry,
                              struct engine_operation *operation)
{
    const struct kvstore_put_options *options = &operation->put;
    enum kv_status status =
        entry ? kvstore_condition_status(options->condition, rewrite->present,
                                         version_holds(rewrite, entry, options->version))
              : KV_OK;
    if (status != KV_OK)
        return status;
    if (operation->opcode == ENGINE_EXCHANGE) {
        operation->found = rewrite->present;
        operation->entry.value_bytes = rewrite->present ? (uint32_t)rewrite->value.size : 0;
        if (rewrite->present) {
            void *place = operation->place(operation->context, rewrite->value.size);
            if (!place)
                return KV_BUFFER_TOO_SMALL;
            if (rewrite->value.size > 0)
                memcpy(place, rewrite->value.data, rewrite->value.size);
        }
    }
    bool keeps = options->keep_expiry && rewrite->present;
    rewrite->value = operation->value;
    change(rewrite, operation, keeps ? rewrite->expiry_ms : options->expiry_ms);
    return KV_OK;
}

static enum kv_status run_delete(struct nats_rewrite *rewrite, const struct nats_entry *entry,
                                 struct engine_operation *operation)
{
    uint64_t version = operation->put.version;
    if (entry && !rewrite->present)
        return KV_NOT_FOUND;
    if (entry && version != 0 && !version_holds(rewrite, entry, version))
        return KV_VERSION_MISMATCH;
    change(rewrite, operation, 0);
    rewrite->present = false;
    return KV_OK;
}

/* Returns true if an add would have written the number in another way. */
static bool zeros_lead(struct kv_slice value)
{
    const char *bytes = value.data;
    return value.size > 1 && (bytes[0] == '0' || (bytes[0] == '-' && bytes[1] == '0'));
}

static enum kv_status run_add(struct nats_rewrite *rewrite, struct engine_operation *operation)
{
    const struct kvstore_add_options *options = &operation->add;
    int64_t number = options->initial, sum;
    if (!rewrite->present && options->if_present)
        return KV_NOT_FOUND;
    if (rewrite->present) {
        struct kv_slice value = rewrite->value;
        if ((options->canonical && zeros_lead(value)) ||
            !parse_i64_bytes(value.data, value.size, &number))
            return KV_NOT_A_NUMBER;
    }
    operation->number = number;
    if (__builtin_add_overflow(number, operation->delta, &sum) ||
        (options->has_min && sum < options->min) || (options->has_max && sum > options->max))
        return KV_OUT_OF_BOUNDS;
    if (!reserve(rewrite, NUMBER_TEXT_BYTES))
        return KV_NO_MEMORY;
    int size = snprintf((char *)rewrite->own, NUMBER_TEXT_BYTES, "%" PRId64, sum);
    rewrite->value = kv_slice(rewrite->own, (size_t)size);
    operation->number = sum;
    change(rewrite, operation, rewrite->present ? rewrite->expiry_ms : options->expiry_ms);
    return KV_OK;
}

static enum kv_status run_append(struct nats_rewrite *rewrite, struct engine_operation *operation,
                                 uint32_t max_value_bytes)
{
    size_t before = rewrite->present ? rewrite->value.size : 0;
    size_t after = before + operation->value.size;
    if (after > max_value_bytes)
        return KV_VALUE_TOO_BIG;
    if (!reserve(rewrite, after))
        return KV_NO_MEMORY;
    if (before > 0 && rewrite->value.data != rewrite->own)
        memcpy(rewrite->own, rewrite->value.data, before);
    if (operation->value.size > 0)
        memcpy(rewrite->own + before, operation->value.data, operation->value.size);
    rewrite->value = kv_slice(rewrite->own, after);
    operation->number = (int64_t)after;
    change(rewrite, operation, rewrite->present ? rewrite->expiry_ms : 0);
    return KV_OK;
}

static enum kv_status run_touch(struct nats_rewrite *rewrite, struct engine_operation *operation)
{
    if (!rewrite->present)
        return KV_NOT_FOUND;
    change(rewrite, operation, operation->put.expiry_ms);
    return KV_OK;
}

static enum kv_status run_one(struct nats_rewrite *rewrite, const struct nats_entry *entry,
                              struct engine_operation *operation, uint32_t max_value_bytes)
{
    switch (operation->opcode) {
    case ENGINE_PUT:
    case ENGINE_EXCHANGE:
        return run_put(rewrite, entry, operation);
    case ENGINE_DELETE:
        return run_delete(rewrite, entry, operation);
    case ENGINE_ADD:
        return run_add(rewrite, operation);
    case ENGINE_APPEND:
        return run_append(rewrite, operation, max_value_bytes);
    case ENGINE_TOUCH:
        return run_touch(rewrite, operation);
    case ENGINE_GET:
    case ENGINE_EXISTS:
    case ENGINE_SCAN:
    case ENGINE_SYNC:
    case ENGINE_TRANSACT:
    case ENGINE_OPCODES:
        break;
    }
    return KV_USAGE;
}

void nats_rewrite_run(struct nats_rewrite *rewrite, const struct nats_entry *entry,
                      struct engine_operation *operations, uint32_t max_value_bytes)
{
    rewrite->changes = 0;
    rewrite->present = entry && entry->present;
    rewrite->value = entry ? entry->value : kv_slice(NULL, 0);
    rewrite->expiry_ms = entry && entry->present ? entry->expiry_ms : 0;
    for (struct engine_operation *operation = operations; operation; operation = operation->next) {
        operation->entry = (struct kvstore_entry){0};
        operation->found = false;
        operation->sentence = NULL;
        operation->status = run_one(rewrite, entry, operation, max_value_bytes);
    }
}

void nats_rewrite_tell_versions(const struct nats_rewrite *rewrite,
                                struct engine_operation *operations, uint64_t sequence)
{
    uint64_t version = sequence * NATSKV_FOLD - (rewrite->changes - 1);
    for (struct engine_operation *operation = operations; operation; operation = operation->next)
        if (operation->entry.version == CHANGED)
            operation->entry.version = version++;
}

/* Fails an operation, because what it found may never have been there. */
static void fail_one(struct engine_operation *operation, enum kv_status status,
                     const char *sentence)
{
    operation->entry = (struct kvstore_entry){0};
    operation->found = false;
    operation->number = 0;
    operation->status = status;
    operation->sentence = sentence;
}

void nats_rewrite_fail(struct engine_operation *operations, enum kv_status status,
                       const char *sentence)
{
    bool rests_on_write = false;
    for (struct engine_operation *operation = operations; operation; operation = operation->next) {
        bool changed = operation->entry.version == CHANGED;
        rests_on_write |= changed;
        if (changed || (rests_on_write && status != KV_OUTCOME_UNKNOWN))
            fail_one(operation, status, sentence);
        else if (rests_on_write)
            fail_one(operation, KV_NO_SERVER, NOT_EXECUTED);
    }
}
