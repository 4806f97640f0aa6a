#include "tests/explore/explored_redis_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/session/redis_store.h"
#include "tests/explore/explore.h"

#define KEYS_MAX  32u
#define KEY_BYTES 16u

struct stored {
    char key[KEY_BYTES]; /* "": unused */
    bool is_there;
    char *value;
    size_t size;
    uint64_t version;
};

static struct {
    struct stored keys[KEYS_MAX];
    uint64_t last_version;
    unsigned batches;
    uint32_t late_ms;
    bool may_fail;
} data;

void (*explored_redis_store_note_read)(unsigned batch, struct kv_slice key, size_t bytes);

void explored_redis_store_begin(uint32_t late_ms, bool may_fail)
{
    memset(&data, 0, sizeof data);
    data.late_ms = late_ms;
    data.may_fail = may_fail;
    explored_redis_store_note_read = NULL;
}

void explored_redis_store_end(void)
{
    for (unsigned i = 0; i < KEYS_MAX; i++)
        free(data.keys[i].value);
    memset(&data, 0, sizeof data);
}

static struct stored *stored_of(struct kv_slice key)
{
    for (unsigned i = 0; i < KEYS_MAX; i++) {
        struct stored *stored = &data.keys[i];
        if (stored->key[0] == '\0')
            snprintf(stored->key, sizeof stored->key, "%.*s", (int)key.size,
                     (const char *)key.data);
        if (strlen(stored->key) == key.size && memcmp(stored->key, key.data, key.size) == 0)
            return stored;
    }
    explore_fail("an operation on key %.*s, which nobody named", (int)key.size,
                 (const char *)key.data);
}

struct kv_slice explored_redis_store_value(const char *key)
{
    const struct stored *stored = stored_of(kv_slice_from_string(key));
    return stored->is_there ? kv_slice(stored->value, stored->size) : kv_slice("", 0);
}

/* Keeps the first `kept` bytes of the old value. */
static void store_value(struct stored *stored, size_t kept, const void *value, size_t size)
{
    char *moved = realloc(stored->value, kept + size + 1);
    EXPLORE_CHECK(moved, "no memory for a value");
    memcpy(moved + kept, value, size);
    moved[kept + size] = '\0';
    stored->value = moved;
    stored->size = kept + size;
    stored->is_there = true;
    stored->version = ++data.last_version;
}

void explored_redis_store_put(const char *key, const void *value, size_t size)
{
    store_value(stored_of(kv_slice_from_string(key)), 0, value, size);
}

static enum kv_status check_conditions(const struct stored *stored,
                                       const struct clientk_write_options *write)
{
    if (write->if_absent && stored->is_there)
        return KV_EXISTS;
    if ((write->if_present || write->if_version != 0) && !stored->is_there)
        return KV_NOT_FOUND;
    return write->if_version != 0 && write->if_version != stored->version ? KV_VERSION_MISMATCH
                                                                          : KV_OK;
}

static void give_value(const struct stored *stored, struct clientk_value *value)
{
    if (value->capacity < stored->size + 1) {
        char *grown = realloc(value->data, stored->size + 1);
        EXPLORE_CHECK(grown, "no memory for a result");
        value->data = grown;
        value->capacity = stored->size + 1;
    }
    memcpy(value->data, stored->value, stored->size);
    value->size = stored->size;
}

static enum kv_status write_operation(const struct clientk_operation *operation,
                                      struct stored *stored, struct clientk_result *result)
{
    char text[24];
    enum kv_status status =
        operation->opcode == CLIENTK_ADD ? KV_OK : check_conditions(stored, &operation->write);
    if (status != KV_OK)
        return status;
    switch (operation->opcode) {
    case CLIENTK_PUT:
        store_value(stored, 0, operation->value.data, operation->value.size);
        return KV_OK;
    case CLIENTK_APPEND:
        store_value(stored, stored->is_there ? stored->size : 0, operation->value.data,
                    operation->value.size);
        result->number = (int64_t)stored->size;
        return KV_OK;
    case CLIENTK_ADD:
        result->number =
            operation->delta + (stored->is_there ? strtoll(stored->value, NULL, 10) : 0);
        store_value(stored, 0, text, (size_t)sprintf(text, "%" PRId64, result->number));
        return KV_OK;
    case CLIENTK_DELETE:
        if (!stored->is_there)
            return KV_NOT_FOUND;
        stored->is_there = false;
        return KV_OK;
    default:
        explore_fail("an operation %d", operation->opcode);
    }
}

static void execute_operation(unsigned batch, const struct clientk_operation *operation,
                              struct clientk_result *result)
{
    struct stored *stored = stored_of(operation->key);
    if (operation->opcode != CLIENTK_GET && operation->opcode != CLIENTK_EXISTS) {
        result->status = write_operation(operation, stored, result);
    } else {
        result->status = stored->is_there ? KV_OK : KV_NOT_FOUND;
        result->value.size = stored->size;
        if (stored->is_there && operation->opcode == CLIENTK_GET) {
            give_value(stored, &result->value);
            if (explored_redis_store_note_read)
                explored_redis_store_note_read(batch, operation->key, stored->size);
        }
    }
    result->value.version = stored->version;
}

/* How a batch ends: KV_OK, or it fails from some operation on. */
static enum kv_status draw_outcome(void)
{
    static const enum kv_status outcomes[] = {KV_OVERLOADED, KV_NO_SERVER, KV_TIMEOUT,
                                              KV_OUTCOME_UNKNOWN};
    return data.may_fail && explore_random(8) == 0 ? outcomes[explore_random(4)] : KV_OK;
}

void __wrap_redis_store_execute(struct redis_store *store,
                                const struct clientk_operation *operations, size_t count,
                                struct clientk_result *results);
void __wrap_redis_store_execute(struct redis_store *store,
                                const struct clientk_operation *operations, size_t count,
                                struct clientk_result *results)
{
    (void)store;
    unsigned batch = ++data.batches;
    enum kv_status outcome = draw_outcome();
    size_t fails_at = outcome == KV_OK ? count : explore_random((uint32_t)count);
    bool is_executed = outcome == KV_TIMEOUT || outcome == KV_OUTCOME_UNKNOWN;
    for (size_t i = 0; i < count; i++) {
        if (data.late_ms > 0 && explore_random(8) == 0)
            explore_sleep_ms(1 + explore_random(data.late_ms));
        bool was_quiet = explore_quietly(true);
        bool is_write = operations[i].opcode != CLIENTK_GET;
        if (i < fails_at || (is_executed && is_write && explore_random(2) == 0))
            execute_operation(batch, &operations[i], &results[i]);
        if (i >= fails_at)
            results[i].status = outcome;
        explore_quietly(was_quiet);
    }
}

static bool guards_hold(const struct clientk_transaction *transaction)
{
    for (size_t i = 0; i < transaction->guard_count; i++) {
        const struct clientk_guard *guard = &transaction->guards[i];
        const struct stored *stored = stored_of(guard->key);
        EXPLORE_CHECK(guard->kind == CLIENTK_GUARD_VERSION, "a guard of kind %d", guard->kind);
        if (guard->version != (stored->is_there ? stored->version : 0))
            return false;
    }
    return true;
}

enum kv_status __wrap_redis_store_transact(struct redis_store *store,
                                           const struct clientk_transaction *transaction,
                                           struct clientk_result *results,
                                           struct clientk_transacted *transacted);
enum kv_status __wrap_redis_store_transact(struct redis_store *store,
                                           const struct clientk_transaction *transaction,
                                           struct clientk_result *results,
                                           struct clientk_transacted *transacted)
{
    (void)store;
    unsigned batch = ++data.batches;
    enum kv_status outcome = draw_outcome();
    bool is_unknown = outcome == KV_TIMEOUT || outcome == KV_OUTCOME_UNKNOWN;
    if (data.late_ms > 0)
        explore_sleep_ms(explore_random(data.late_ms + 1));
    *transacted =
        (struct clientk_transacted){.outcome = is_unknown ? CLIENTK_UNKNOWN : CLIENTK_FAILED};
    if (outcome != KV_OK && (!is_unknown || explore_random(2) == 0))
        return outcome;
    bool was_quiet = explore_quietly(true);
    bool holds = guards_hold(transaction);
    for (size_t i = 0; holds && i < transaction->then_count; i++)
        execute_operation(batch, &transaction->then[i], &results[i]);
    explore_quietly(was_quiet);
    if (outcome == KV_OK)
        transacted->outcome = holds ? CLIENTK_DONE : CLIENTK_ELSE;
    return outcome;
}

void __wrap_redis_store_interrupt(void);
void __wrap_redis_store_interrupt(void)
{
}

void __wrap_redis_store_refresh(struct redis_store *store);
void __wrap_redis_store_refresh(struct redis_store *store)
{
    (void)store;
}

size_t __wrap_redis_store_max_value_bytes(const struct redis_store *store);
size_t __wrap_redis_store_max_value_bytes(const struct redis_store *store)
{
    (void)store;
    return (size_t)1 << 20;
}
