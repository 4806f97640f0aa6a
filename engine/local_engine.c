#include "engine/local_engine.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/text/parse.h"

static uint32_t local_max_value_bytes(const struct store_engine *engine)
{
    return kvstore_max_value_bytes(engine->store);
}

static uint32_t local_datafiles(const struct store_engine *engine)
{
    return kvstore_datafiles(engine->store);
}

static void local_direct_facts(const struct store_engine *engine,
                               struct kvstore_direct_facts *facts)
{
    kvstore_direct_facts(engine->store, facts);
}

static const char *describe_local(const struct store_engine *engine, char *text, size_t size)
{
    char count[32];
    format_count(kvstore_datafiles(engine->store), "data file", count);
    size_t length = strnlen(count, size - 1);
    memcpy(text, count, length);
    text[length] = '\0';
    return text;
}

static void tell_no_numbers(const struct store_engine *engine, engine_number_visit visit,
                            void *context)
{
    (void)engine;
    (void)visit;
    (void)context;
}

static enum kv_status close_local_store(struct store_engine *engine, struct kv_error *error)
{
    enum kv_status status = kvstore_close(engine->store, error);
    free(engine);
    return status;
}

static const struct engine_calls calls = {.name = "kvstore",
                                          .max_value_bytes = local_max_value_bytes,
                                          .datafiles = local_datafiles,
                                          .direct_facts = local_direct_facts,
                                          .describe = describe_local,
                                          .numbers = tell_no_numbers,
                                          .close = close_local_store};

enum kv_status local_engine_open(const char *dir, const struct kvstore_options *options,
                                 struct store_engine **result, struct kv_error *error)
{
    struct store_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    engine->calls = &calls;
    enum kv_status status = kvstore_open(dir, options, &engine->store, error);
    KV_ASSERT((status == KV_OK) == engine_is_called(engine));
    if (status == KV_OK)
        *result = engine;
    else
        free(engine);
    return status;
}
