#include "tests/support/asked_transaction.h"

#include <stdlib.h>
#include <string.h>

struct kvstore_guard *asked_guard(struct asked_transaction *asked, enum kvstore_guard_kind kind,
                                  const char *key)
{
    if (asked->asked.guard_count == ASKED_MOST)
        abort();
    struct kvstore_guard *guard = &asked->guards[asked->asked.guard_count++];
    *guard = (struct kvstore_guard){.kind = kind, .key = kv_slice_from_string(key)};
    return guard;
}

static struct kvstore_step *add_step(struct kvstore_step *steps, uint32_t *count,
                                     enum kvstore_step_kind kind, const char *key,
                                     const char *value)
{
    if (*count == ASKED_MOST)
        abort();
    struct kvstore_step *step = &steps[(*count)++];
    *step = (struct kvstore_step){.kind = kind, .key = kv_slice_from_string(key)};
    if (value)
        step->value = kv_slice_from_string(value);
    return step;
}

struct kvstore_step *asked_then(struct asked_transaction *asked, enum kvstore_step_kind kind,
                                const char *key, const char *value)
{
    return add_step(asked->then, &asked->asked.then_count, kind, key, value);
}

struct kvstore_step *asked_otherwise(struct asked_transaction *asked, enum kvstore_step_kind kind,
                                     const char *key, const char *value)
{
    return add_step(asked->otherwise, &asked->asked.otherwise_count, kind, key, value);
}

static void *place_value(void *context, uint32_t step, size_t bytes)
{
    struct asked_transaction *asked = context;
    if (bytes >= ASKED_VALUE_BYTES)
        return NULL;
    memset(asked->values[step], 0, ASKED_VALUE_BYTES);
    return asked->values[step];
}

enum kv_status asked_do(struct asked_transaction *asked, struct kvstore *store)
{
    asked->asked.guards = asked->guards;
    asked->asked.then = asked->then;
    asked->asked.otherwise = asked->otherwise;
    if (!asked->asked.place) {
        asked->asked.place = place_value;
        asked->asked.context = asked;
    }
    memset(asked->results, 0xee, sizeof asked->results); /* nobody relies on what was there */
    return kvstore_transact(store, &asked->asked, asked->results, &asked->told);
}
