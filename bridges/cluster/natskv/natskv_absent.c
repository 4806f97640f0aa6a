/* natskv_absent: takes the place of the engine in a build without libnats. */
#include "bridges/cluster/natskv/natskv.h"

#include "common/report/error.h"

bool natskv_is_built_in(void)
{
    return false;
}

void natskv_prepare(const struct natskv_options *options)
{
    (void)options;
}

static enum kv_status absent(struct kv_error *error)
{
    return kv_error_set(error, KV_UNSUPPORTED,
                        "this serverk was built without NATS: install libnats-dev and build again");
}

enum kv_status natskv_open(const struct natskv_options *options, struct store_engine **engine,
                           struct kv_error *error)
{
    (void)options;
    (void)engine;
    return absent(error);
}

uint32_t natskv_shard(const struct store_engine *engine, struct kv_slice key)
{
    (void)engine;
    (void)key;
    return 0;
}

enum kv_status natskv_copy(struct store_engine *engine, struct natskv_copy *copy,
                           struct kv_error *error)
{
    (void)engine;
    (void)copy;
    return absent(error);
}

enum kv_status natskv_mark_copy(struct store_engine *engine, const char *mark,
                                struct kv_error *error)
{
    (void)engine;
    (void)mark;
    return absent(error);
}
