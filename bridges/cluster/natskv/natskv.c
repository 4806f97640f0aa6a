#include "bridges/cluster/natskv/natskv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "bridges/cluster/natskv/nats_connect.h"
#include "bridges/cluster/natskv/nats_engine.h"
#include "bridges/cluster/natskv/nats_look.h"
#include "bridges/cluster/natskv/nats_scan.h"
#include "bridges/cluster/natskv/nats_shard.h"
#include "bridges/cluster/natskv/nats_subject.h"
#include "bridges/cluster/natskv/nats_sweep.h"
#include "bridges/cluster/natskv/nats_transact.h"
#include "bridges/cluster/natskv/nats_turns.h"
#include "bridges/cluster/natskv/nats_key_queue.h"

/* Operations ----------------------------------------------------------------------------------- */

static bool changes_a_key(enum engine_opcode opcode)
{
    return opcode == ENGINE_PUT || opcode == ENGINE_DELETE || opcode == ENGINE_ADD ||
           opcode == ENGINE_APPEND || opcode == ENGINE_EXCHANGE || opcode == ENGINE_TOUCH;
}

static void submit_to_key(struct nats_engine *engine, struct engine_operation *operation)
{
    char encoded[NATSKV_MAX_KEY_BYTES + 1];
    if (operation->key.size == 0) {
        nats_finish(operation, KV_BAD_KEY, NULL);
    } else if (!nats_subject_encode(operation->key, encoded, sizeof encoded)) {
        nats_finish(operation, KV_BAD_KEY, NATS_LONG_KEY);
    } else if (operation->value.size > engine->max_value_bytes) {
        nats_finish(operation, KV_VALUE_TOO_BIG, NULL);
    } else if (operation->synced && !engine->synced && changes_a_key(operation->opcode)) {
        nats_finish(operation, KV_UNSUPPORTED, NATS_NOT_SYNCED);
    } else {
        nats_key_queues_take(engine->queues, operation,
                             nats_shard_of(&engine->bucket, operation->key), encoded);
    }
}

static void submit(struct store_engine *base, struct engine_operation *operation)
{
    struct nats_engine *engine = (struct nats_engine *)base;
    switch (operation->opcode) {
    case ENGINE_GET:
    case ENGINE_EXISTS:
    case ENGINE_PUT:
    case ENGINE_DELETE:
    case ENGINE_ADD:
    case ENGINE_APPEND:
    case ENGINE_EXCHANGE:
    case ENGINE_TOUCH:
        submit_to_key(engine, operation);
        return;
    case ENGINE_SCAN:
        nats_scan_begin(engine, operation);
        return;
    case ENGINE_SYNC: /* what was acknowledged is synced, or nobody knows when it will be */
        nats_finish(operation, engine->synced ? KV_OK : KV_UNSUPPORTED,
                    engine->synced ? NULL : NATS_NOT_SYNCED);
        return;
    case ENGINE_TRANSACT:
        nats_transact_begin(engine, operation);
        return;
    case ENGINE_OPCODES:
        break;
    }
    nats_finish(operation, KV_UNSUPPORTED, NULL);
}

/* Facts ---------------------------------------------------------------------------------------- */

static uint32_t bucket_max_value_bytes(const struct store_engine *base)
{
    return ((const struct nats_engine *)base)->max_value_bytes;
}

static uint32_t no_datafiles(const struct store_engine *base)
{
    (void)base;
    return 0;
}

static void no_direct_facts(const struct store_engine *base, struct kvstore_direct_facts *facts)
{
    (void)base;
    *facts = (struct kvstore_direct_facts){.direct = KVSTORE_DIRECT_OFF};
}

static const char *describe_bucket(const struct store_engine *base, char *text, size_t size)
{
    const struct nats_bucket *bucket = &((const struct nats_engine *)base)->bucket;
    snprintf(text, size, "nats bucket %s (%" PRIu32 " shards x %" PRIu32 ")", bucket->name,
             bucket->shards, bucket->replicas);
    return text;
}

static void numbers(const struct store_engine *base, engine_number_visit visit, void *context)
{
    /* The engine is not const: a look asks the servers. */
    struct nats_engine *engine = (struct nats_engine *)(uintptr_t)base;
    struct link_counts counts;
    struct nats_holdings holdings;
    nats_link_counts(engine->link, &counts);
    nats_look_sum(engine, &holdings);
    const struct engine_number all[] = {
        {"connected", "Whether there is a connection to a server.", counts.connected},
        {"shards", "Streams of the bucket.", engine->bucket.shards},
        {"replicas", "Servers that have each stream.", nats_look_replicas(engine, 0)},
        {"keys", "Messages in the streams: keys, tombstones, what has expired.", holdings.messages},
        {"bytes", "Bytes of the streams, in each replica.", holdings.bytes},
        {"calls_under_way", "Requests to the servers under way.", counts.in_flight},
        {"calls_total", "Requests to the servers.", counts.calls},
        {"repeats_total", "Requests sent again for want of an answer.", counts.repeats},
        {"nobody_total", "Answers that no server takes the request.", counts.nobody},
        {"silent_total", "Requests that ended without an answer.", counts.silent},
        {"reconnects_total", "Connections made again.", counts.reconnects},
        {"folded_total", "Writes that went in the message of another.",
         atomic_load(&engine->folded)},
        {"swept_total", "Expired entries and tombstones that this daemon removed.",
         nats_sweep_removed(engine->sweep)},
        {"transactions_total", "Transactions that were stored as a batch.",
         atomic_load(&engine->transactions)},
        {"conflicts_total", "Writes tried again, since others were faster.",
         atomic_load(&engine->conflicts)},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        visit(context, &all[i]);
}

/* Life ----------------------------------------------------------------------------------------- */

static bool create_turns(struct nats_engine *engine)
{
    engine->turns = calloc(engine->bucket.shards, sizeof *engine->turns);
    for (uint32_t i = 0; engine->turns && i < engine->bucket.shards; i++)
        nats_turns_init(&engine->turns[i]);
    return engine->turns != NULL;
}

static void free_turns(struct nats_engine *engine)
{
    for (uint32_t i = 0; engine->turns && i < engine->bucket.shards; i++)
        nats_turns_destroy(&engine->turns[i]);
    free(engine->turns);
}

static enum kv_status close_engine(struct store_engine *base, struct kv_error *error)
{
    struct nats_engine *engine = (struct nats_engine *)base;
    (void)error;
    nats_sweep_stop(engine->sweep);
    nats_look_free(engine);
    nats_link_close(engine->link);
    nats_key_queues_free(engine->queues);
    free_turns(engine);
    free(engine);
    return KV_OK;
}

static const struct engine_calls calls = {.name = "nats",
                                          .submit = submit,
                                          .max_value_bytes = bucket_max_value_bytes,
                                          .datafiles = no_datafiles,
                                          .direct_facts = no_direct_facts,
                                          .describe = describe_bucket,
                                          .numbers = numbers,
                                          .close = close_engine};

/* Sets the size of the largest value: what the servers take, or less if the options say so. */
static enum kv_status set_max_value(struct nats_engine *engine,
                                    const struct natskv_options *options, struct kv_error *error)
{
    uint64_t payload = nats_link_max_payload(engine->link);
    uint64_t most = payload > NATSKV_OVERHEAD_BYTES ? payload - NATSKV_OVERHEAD_BYTES : 0;
    if (most > KVSTORE_MAX_VALUE_BYTES)
        most = KVSTORE_MAX_VALUE_BYTES;
    if (most == 0 || options->max_value_bytes > most)
        return kv_error_set(error, KV_USAGE,
                            "--max-value %" PRIu32 ": the NATS servers take values of up to "
                            "%" PRIu64 " bytes (max_payload %" PRIu64 " less %u)",
                            options->max_value_bytes, most, payload, NATSKV_OVERHEAD_BYTES);
    engine->max_value_bytes = options->max_value_bytes ? options->max_value_bytes : (uint32_t)most;
    return KV_OK;
}

bool natskv_is_built_in(void)
{
    return true;
}

void natskv_prepare(const struct natskv_options *options)
{
    nats_connect_prepare(options);
}

enum kv_status natskv_open(const struct natskv_options *options, struct store_engine **result,
                           struct kv_error *error)
{
    struct nats_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    engine->base.calls = &calls;
    engine->synced = options->synced;
    enum kv_status status = nats_link_open(options, &engine->link, error);
    if (status == KV_OK)
        status = nats_bucket_open(engine->link, options, &engine->bucket, error);
    if (status == KV_OK)
        status = set_max_value(engine, options, error);
    if (status == KV_OK) {
        engine->read_any = options->read_any;
        engine->queues = nats_key_queues_create(engine);
        if (!engine->queues || !nats_look_create(engine) || !create_turns(engine))
            status = kv_error_set(error, KV_NO_MEMORY, "out of memory");
    }
    if (status == KV_OK && !options->check_only)
        status = nats_sweep_start(engine, &engine->sweep, error);
    if (status != KV_OK) {
        close_engine(&engine->base, NULL);
        return status;
    }
    *result = &engine->base;
    return KV_OK;
}

uint32_t natskv_shard(const struct store_engine *base, struct kv_slice key)
{
    const struct nats_engine *engine = (const struct nats_engine *)base;
    return nats_shard_of(&engine->bucket, key);
}

enum kv_status natskv_copy(struct store_engine *base, struct natskv_copy *copy,
                           struct kv_error *error)
{
    struct nats_engine *engine = (struct nats_engine *)base;
    return nats_bucket_mark(engine->link, &engine->bucket, copy, error);
}

enum kv_status natskv_mark_copy(struct store_engine *base, const char *mark, struct kv_error *error)
{
    struct nats_engine *engine = (struct nats_engine *)base;
    return nats_bucket_set_mark(engine->link, &engine->bucket, mark, error);
}
