#include "tests/support/late_engine.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

struct late_engine {
    struct store_engine base;
    struct kvstore *behind;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct engine_operation *waiting;
    unsigned count;
    unsigned turn; /* which of those that wait comes next */
    bool closing;
    bool has_refused;
};

/* The first operation on the key "busy" finds too much waiting. */
static bool is_refused(struct late_engine *engine, const struct engine_operation *operation)
{
    if (engine->has_refused || !kv_slice_equal(operation->key, kv_slice_from_string("busy")))
        return false;
    engine->has_refused = true;
    return true;
}

static void run_scan(struct kvstore *store, struct engine_operation *operation)
{
    struct kvstore_scan_result result;
    uint64_t cursor = operation->cursor;
    operation->status = kvstore_scan(store, &cursor, operation->key, operation->limit,
                                     operation->visit, operation->context, &result);
    operation->number = (int64_t)cursor;
}

static void run_write(struct kvstore *store, struct engine_operation *operation)
{
    struct kvstore_written written = {0};
    struct kv_slice key = operation->key, value = operation->value;
    uint32_t bytes = 0;
    switch (operation->opcode) {
    case ENGINE_PUT:
        operation->status = kvstore_put(store, key, value, &operation->put, &written);
        break;
    case ENGINE_DELETE:
        operation->status = kvstore_delete(store, key, operation->put.version, &written);
        break;
    case ENGINE_ADD:
        operation->status = kvstore_add(store, key, operation->delta, &operation->add,
                                        &operation->number, &written);
        break;
    case ENGINE_APPEND:
        operation->status = kvstore_append(store, key, value, &bytes, &written);
        operation->number = bytes;
        break;
    case ENGINE_EXCHANGE:
        operation->status =
            kvstore_exchange_to(store, key, value, &operation->put, operation->place,
                                operation->context, &operation->found, &operation->entry, &written);
        break;
    default:
        operation->status = kvstore_touch(store, key, operation->put.expiry_ms, &written);
        break;
    }
    operation->entry.version = written.version;
}

/* The steps, where each write has become a read that needs no place. */
static void copy_reads(const struct kvstore_step *steps, uint32_t count, struct kvstore_step *reads)
{
    for (uint32_t i = 0; i < count; i++) {
        bool is_get = steps[i].kind == KVSTORE_STEP_GET;
        reads[i] = (struct kvstore_step){.kind = is_get ? KVSTORE_STEP_GET : KVSTORE_STEP_EXISTS,
                                         .key = steps[i].key};
    }
}

/* Looks first whether what is found has a place, as the engine has promised. */
static void run_transaction_late(struct kvstore *store, struct engine_operation *operation)
{
    static struct kvstore_step then[KVSTORE_MAX_TRANSACTION_STEPS];
    static struct kvstore_step otherwise[KVSTORE_MAX_TRANSACTION_STEPS];
    struct kvstore_transaction look = *operation->transaction;
    copy_reads(look.then, look.then_count, then);
    copy_reads(look.otherwise, look.otherwise_count, otherwise);
    look.then = then;
    look.otherwise = otherwise;
    operation->status = kvstore_transact(store, &look, operation->results, &operation->transacted);
    uint32_t steps = operation->transacted.held ? look.then_count : look.otherwise_count;
    for (uint32_t i = 0; i < steps && operation->status == KV_OK; i++)
        if (operation->results[i].status == KV_BUFFER_TOO_SMALL)
            operation->status = KV_BUFFER_TOO_SMALL;
    if (operation->status == KV_OK)
        operation->status = kvstore_transact(store, operation->transaction, operation->results,
                                             &operation->transacted);
}

static void run(struct kvstore *store, struct engine_operation *operation)
{
    static uint8_t value[1u << 20];
    switch (operation->opcode) {
    case ENGINE_GET:
        operation->status =
            kvstore_get(store, operation->key, value, sizeof value, &operation->entry);
        operation->found_value = kv_slice(value, operation->entry.value_bytes);
        break;
    case ENGINE_EXISTS:
        operation->status = kvstore_get(store, operation->key, NULL, 0, &operation->entry);
        break;
    case ENGINE_SCAN:
        if (operation->atomic) {
            operation->status = KV_UNSUPPORTED;
            operation->sentence = "the late engine has no atomic scan";
        } else {
            run_scan(store, operation);
        }
        break;
    case ENGINE_SYNC:
        operation->status = KV_OK;
        break;
    case ENGINE_TRANSACT:
        run_transaction_late(store, operation);
        break;
    default:
        run_write(store, operation);
        break;
    }
}

/* Takes one of those that wait out of the list. */
static struct engine_operation *take(struct late_engine *engine)
{
    struct engine_operation **link = &engine->waiting;
    for (unsigned i = engine->turn++ * 7 % engine->count; i > 0; i--)
        link = &(*link)->next;
    struct engine_operation *operation = *link;
    *link = operation->next;
    engine->count--;
    return operation;
}

static void *serve(void *argument)
{
    struct late_engine *engine = argument;
    pthread_mutex_lock(&engine->lock);
    for (;;) {
        while (engine->count == 0 && !engine->closing)
            pthread_cond_wait(&engine->more, &engine->lock);
        if (engine->count == 0)
            break;
        struct engine_operation *operation = take(engine);
        pthread_mutex_unlock(&engine->lock);
        if (is_refused(engine, operation))
            operation->status = KV_OVERLOADED;
        else
            run(engine->behind, operation);
        operation->done(operation);
        pthread_mutex_lock(&engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

static void submit(struct store_engine *base, struct engine_operation *operation)
{
    struct late_engine *engine = (struct late_engine *)base;
    pthread_mutex_lock(&engine->lock);
    operation->next = engine->waiting;
    engine->waiting = operation;
    engine->count++;
    pthread_cond_signal(&engine->more);
    pthread_mutex_unlock(&engine->lock);
}

static uint32_t max_value_bytes(const struct store_engine *base)
{
    return kvstore_max_value_bytes(((const struct late_engine *)base)->behind);
}

static enum kv_status close_late(struct store_engine *base, struct kv_error *error)
{
    struct late_engine *engine = (struct late_engine *)base;
    (void)error;
    pthread_mutex_lock(&engine->lock);
    engine->closing = true;
    pthread_cond_signal(&engine->more);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->thread, NULL);
    free(engine);
    return KV_OK;
}

struct store_engine *late_engine_open(struct kvstore *store)
{
    static const struct engine_calls calls = {
        .name = "late", .submit = submit, .max_value_bytes = max_value_bytes, .close = close_late};
    struct late_engine *engine = calloc(1, sizeof *engine);
    ck_assert_ptr_nonnull(engine);
    engine->base.calls = &calls;
    engine->behind = store;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->more, NULL);
    ck_assert_int_eq(pthread_create(&engine->thread, NULL, serve, engine), 0);
    return &engine->base;
}
