#include "bridges/cluster/natskv/nats_look.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_json.h"

#define EVERY_MS  1000u
#define ANSWER_MS 2000u

/* How long statistics wait for the servers' answers. */
#define SUM_WAIT_MS 500u

struct shard_look {
    struct link_call call;
    struct nats_engine *engine;
    uint32_t shard;
    _Atomic bool under_way, unanswered;
    _Atomic uint64_t looked_ms, messages, bytes, first_sequence, last_sequence;
    _Atomic uint32_t replicas;
};

static bool make_question(struct link_call *call, const char *reply, natsMsg **message)
{
    const struct shard_look *look = (struct shard_look *)call;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 32];
    nats_bucket_stream(&look->engine->bucket, look->shard, stream);
    snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", stream);
    return natsMsg_Create(message, subject, reply, NULL, 0) == NATS_OK;
}

/* Reads the answer. False: it is no state of a stream, for example because it has no leader. */
static bool read_shard_state(struct shard_look *look, struct kv_slice answer)
{
    uint64_t messages, bytes, first, last, replicas;
    struct kv_slice state = nats_json_member(answer, "state");
    if (!nats_json_number(nats_json_member(answer, "config"), "num_replicas", &replicas) ||
        !nats_json_number(state, "messages", &messages) ||
        !nats_json_number(state, "bytes", &bytes) ||
        !nats_json_number(state, "first_seq", &first) ||
        !nats_json_number(state, "last_seq", &last))
        return false;
    atomic_store(&look->messages, messages);
    atomic_store(&look->bytes, bytes);
    atomic_store(&look->first_sequence, first);
    atomic_store(&look->last_sequence, last);
    atomic_store(&look->replicas, (uint32_t)replicas);
    return true;
}

static bool take_shard_answer(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                              bool repeats)
{
    struct shard_look *look = (struct shard_look *)call;
    (void)repeats;
    bool answered = outcome == LINK_ANSWERED &&
                    read_shard_state(look, kv_slice(natsMsg_GetData(message),
                                                    (size_t)natsMsg_GetDataLength(message)));
    atomic_store(&look->unanswered, !answered);
    atomic_store(&look->under_way, false);
    return false;
}

bool nats_look_create(struct nats_engine *engine)
{
    engine->looks = calloc(engine->bucket.shards, sizeof *engine->looks);
    for (uint32_t i = 0; engine->looks && i < engine->bucket.shards; i++) {
        engine->looks[i].engine = engine;
        engine->looks[i].shard = i;
        atomic_store(&engine->looks[i].replicas, engine->bucket.replicas);
    }
    return engine->looks != NULL;
}

static void wait_for_looks(struct nats_engine *engine, uint64_t until_ms)
{
    for (uint32_t i = 0; engine->looks && i < engine->bucket.shards; i++)
        while (atomic_load(&engine->looks[i].under_way) && clock_monotonic_coarse_ms() < until_ms)
            clock_sleep_ms(1);
}

void nats_look_free(struct nats_engine *engine)
{
    wait_for_looks(engine, UINT64_MAX);
    free(engine->looks);
    engine->looks = NULL;
}

static void look_again(struct shard_look *look, uint64_t every_ms)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    bool idle = false;
    if (now_ms - atomic_load(&look->looked_ms) < every_ms ||
        !atomic_compare_exchange_strong(&look->under_way, &idle, true))
        return;
    atomic_store(&look->looked_ms, now_ms);
    look->call = (struct link_call){
        .deadline_ms = now_ms + ANSWER_MS, .make = make_question, .answer = take_shard_answer};
    if (!nats_link_send(look->engine->link, &look->call))
        atomic_store(&look->under_way, false);
}

void nats_look_again(struct nats_engine *engine, uint32_t shard)
{
    look_again(&engine->looks[shard], EVERY_MS);
}

void nats_look_tell(const struct nats_engine *engine, uint32_t shard,
                    struct nats_holdings *holdings)
{
    const struct shard_look *look = &engine->looks[shard];
    *holdings = (struct nats_holdings){.messages = atomic_load(&look->messages),
                                       .bytes = atomic_load(&look->bytes),
                                       .first_sequence = atomic_load(&look->first_sequence),
                                       .last_sequence = atomic_load(&look->last_sequence)};
}

void nats_look_sum(struct nats_engine *engine, struct nats_holdings *sum)
{
    bool answered = true;
    *sum = (struct nats_holdings){0};
    for (uint32_t i = 0; i < engine->bucket.shards; i++) {
        answered &= !atomic_load(&engine->looks[i].unanswered);
        look_again(&engine->looks[i], 0);
    }
    if (answered)
        wait_for_looks(engine, clock_monotonic_coarse_ms() + SUM_WAIT_MS);
    for (uint32_t i = 0; i < engine->bucket.shards; i++) {
        struct nats_holdings holdings;
        nats_look_tell(engine, i, &holdings);
        sum->messages += holdings.messages;
        sum->bytes += holdings.bytes;
    }
}

uint32_t nats_look_replicas(const struct nats_engine *engine, uint32_t shard)
{
    return atomic_load_explicit(&engine->looks[shard].replicas, memory_order_relaxed);
}
