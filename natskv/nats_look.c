#include "natskv/nats_look.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/time/clock.h"
#include "natskv/nats_json.h"

#define EVERY_MS 1000u
#define WAIT_MS  2000u

struct shard_look {
    struct link_call call;
    struct nats_engine *engine;
    uint32_t shard;
    _Atomic bool under_way;
    _Atomic uint64_t looked_ms, keys, bytes;
};

static bool make_question(struct link_call *call, const char *reply, natsMsg **message)
{
    const struct shard_look *look = (struct shard_look *)call;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 32];
    nats_bucket_stream(&look->engine->bucket, look->shard, stream);
    snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", stream);
    return natsMsg_Create(message, subject, reply, NULL, 0) == NATS_OK;
}

static bool take_state(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                       bool repeats)
{
    struct shard_look *look = (struct shard_look *)call;
    uint64_t keys = 0, bytes = 0;
    (void)repeats;
    if (outcome == LINK_ANSWERED) {
        struct kv_slice answer =
            kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
        struct kv_slice state = nats_json_member(answer, "state");
        if (nats_json_number(state, "messages", &keys) &&
            nats_json_number(state, "bytes", &bytes)) {
            atomic_store(&look->keys, keys);
            atomic_store(&look->bytes, bytes);
        }
    }
    atomic_store(&look->under_way, false);
    return false;
}

bool nats_look_create(struct nats_engine *engine)
{
    engine->looks = calloc(engine->bucket.shards, sizeof *engine->looks);
    for (uint32_t i = 0; engine->looks && i < engine->bucket.shards; i++) {
        engine->looks[i].engine = engine;
        engine->looks[i].shard = i;
    }
    return engine->looks != NULL;
}

void nats_look_free(struct nats_engine *engine)
{
    for (uint32_t i = 0; engine->looks && i < engine->bucket.shards; i++)
        while (atomic_load(&engine->looks[i].under_way))
            clock_sleep_ms(5);
    free(engine->looks);
    engine->looks = NULL;
}

static void look_again(struct shard_look *look)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    bool idle = false;
    if (now_ms - atomic_load(&look->looked_ms) < EVERY_MS ||
        !atomic_compare_exchange_strong(&look->under_way, &idle, true))
        return;
    atomic_store(&look->looked_ms, now_ms);
    look->call = (struct link_call){
        .deadline_ms = now_ms + WAIT_MS, .make = make_question, .answer = take_state};
    if (!nats_link_send(look->engine->link, &look->call))
        atomic_store(&look->under_way, false);
}

void nats_look(struct nats_engine *engine, struct nats_holdings *holdings)
{
    *holdings = (struct nats_holdings){0};
    for (uint32_t i = 0; i < engine->bucket.shards; i++) {
        holdings->keys += atomic_load(&engine->looks[i].keys);
        holdings->bytes += atomic_load(&engine->looks[i].bytes);
        look_again(&engine->looks[i]);
    }
}
