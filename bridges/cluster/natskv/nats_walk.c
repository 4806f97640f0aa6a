#include "bridges/cluster/natskv/nats_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_json.h"
#include "bridges/cluster/natskv/nats_look.h"

#define WALKERS 32u

/* Who has no leader for now, is asked again after this time. */
#define LATER_MS 100u

/* Values held at once, beside those of the answers under way. */
#define MOST_BYTES (2u << 20)

/* Walks from one sequence to another. */
struct walker {
    struct link_call call;
    struct walk_run *run;
    uint64_t from, until; /* from: nothing unseen is before it */
    bool has_end;         /* when it asked, nothing was there from `from` on */
    struct walked_message *first, **end;
};

struct walk_run {
    struct nats_engine *engine;
    struct nats_walk *walk;
    _Atomic uint64_t bytes;
    _Atomic uint32_t walking;
    _Atomic int status; /* the first failure */
    uint32_t count;
    struct walker walkers[WALKERS];
};

void nats_walk_free(struct nats_walk *walk)
{
    while (walk->messages) {
        struct walked_message *message = walk->messages;
        walk->messages = message->next;
        nats_entry_free(&message->entry);
        free(message);
    }
}

/* Puts together what all have found; what is behind a part that was not walked through is freed.
 * Nor is what a walker found walked through that came to the end of the stream: while those before
 * it read on, what is still before them may be written again, and so come behind that end. Only the
 * first walker has nobody before it. */
static void finish(struct walk_run *run)
{
    struct nats_walk *walk = run->walk;
    struct walked_message **end = &walk->messages, *rest = NULL, **rest_end = &rest;
    bool goes_on = true;
    walk->messages = NULL;
    walk->is_end = run->walkers[0].has_end;
    for (uint32_t i = 0; i < run->count; i++) {
        struct walker *walker = &run->walkers[i];
        struct walked_message ***to = goes_on ? &end : &rest_end;
        **to = walker->first;
        if (walker->first)
            *to = walker->end;
        if (goes_on)
            walk->sequence = walker->from;
        goes_on = goes_on && walker->from >= walker->until;
    }
    *end = *rest_end = NULL;
    walk->status = goes_on || walk->is_end ? KV_OK : (enum kv_status)atomic_load(&run->status);
    struct nats_walk unused = {.messages = rest};
    nats_walk_free(&unused);
    free(run);
    walk->done(walk);
}

/* The walker has come to its end, or to that of the walk. */
static void stop(struct walker *walker, enum kv_status status)
{
    struct walk_run *run = walker->run;
    int none = KV_OK;
    if (status != KV_OK)
        atomic_compare_exchange_strong(&run->status, &none, (int)status);
    if (atomic_fetch_sub(&run->walking, 1) == 1)
        finish(run);
}

static bool make_step(struct link_call *call, const char *reply, natsMsg **message)
{
    const struct walker *walker = (struct walker *)call;
    const struct nats_bucket *bucket = &walker->run->engine->bucket;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 32], json[64];
    nats_bucket_stream(bucket, walker->run->walk->shard, stream);
    snprintf(subject, sizeof subject, "$JS.API.STREAM.MSG.GET.%s", stream);
    int size =
        snprintf(json, sizeof json, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\">\"}", walker->from);
    return natsMsg_Create(message, subject, reply, json, size) == NATS_OK;
}

static bool is_enough(struct walk_run *run)
{
    return atomic_load(&run->bytes) >= MOST_BYTES || atomic_load(&run->status) != KV_OK ||
           clock_monotonic_coarse_ms() >= run->walk->enough_ms;
}

static enum kv_status keep(struct walker *walker, struct kv_slice answer, struct nats_entry *entry)
{
    struct kv_slice subject = {0};
    nats_json_string(nats_json_member(answer, "message"), "subject", &subject);
    struct walked_message *message = malloc(sizeof *message + subject.size + 1);
    if (!message) {
        nats_entry_free(entry);
        return KV_NO_MEMORY;
    }
    memcpy(message->subject, subject.data ? subject.data : "", subject.size);
    message->subject[subject.size] = '\0';
    message->entry = *entry;
    *walker->end = message;
    walker->end = &message->next;
    message->next = NULL;
    atomic_fetch_add(&walker->run->bytes, entry->value.size);
    return KV_OK;
}

static void step(struct walker *walker, uint64_t begin_ms);

/* link_call.answer. */
static bool take_step(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                      bool repeats)
{
    struct walker *walker = (struct walker *)call;
    struct nats_entry entry;
    (void)repeats;
    if (outcome != LINK_ANSWERED) {
        stop(walker, KV_NO_SERVER);
        return false;
    }
    struct kv_slice answer =
        kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
    enum kv_status status = nats_entry_from_json(answer, &entry);
    if (status == KV_NO_SERVER) { /* "come back later" */
        step(walker, clock_monotonic_coarse_ms() + LATER_MS);
        return false;
    }
    if (status == KV_OK && entry.sequence != 0 && entry.sequence < walker->from) {
        nats_entry_free(&entry);
        status = KV_IO;
    }
    if (status == KV_OK && entry.sequence != 0 && entry.sequence < walker->until) {
        walker->from = entry.sequence + 1;
        status = keep(walker, answer, &entry);
    } else if (status == KV_OK) {
        walker->has_end = entry.sequence == 0;
        walker->from = walker->has_end ? walker->from : entry.sequence;
        nats_entry_free(&entry);
    }
    if (status != KV_OK || walker->has_end || walker->from >= walker->until ||
        is_enough(walker->run))
        stop(walker, status);
    else
        step(walker, 0);
    return false;
}

static void step(struct walker *walker, uint64_t begin_ms)
{
    walker->call = (struct link_call){.deadline_ms = walker->run->walk->deadline_ms,
                                      .begin_ms = begin_ms,
                                      .again_ms = NATS_AGAIN_MS,
                                      .make = make_step,
                                      .answer = take_step};
    if (!nats_link_send(walker->run->engine->link, &walker->call))
        stop(walker, KV_OVERLOADED);
}

/* Sequences for one message: where keys are written again and again there are many. */
static uint64_t stretch_of(const struct nats_holdings *holdings, uint64_t messages)
{
    uint64_t all = holdings->last_sequence - holdings->first_sequence + 1;
    if (holdings->messages == 0 || holdings->last_sequence < holdings->first_sequence)
        return messages;
    return (uint64_t)((double)all / (double)holdings->messages * (double)messages) + 1;
}

void nats_walk_begin(struct nats_engine *engine, struct nats_walk *walk)
{
    struct nats_holdings holdings;
    struct walk_run *run = calloc(1, sizeof *run);
    if (!run) {
        *walk = (struct nats_walk){
            .sequence = walk->sequence, .done = walk->done, .status = KV_NO_MEMORY};
        walk->done(walk);
        return;
    }
    nats_look_again(engine, walk->shard);
    nats_look_tell(engine, walk->shard, &holdings);
    uint64_t count = walk->count;
    if (holdings.bytes > 0 && count * holdings.bytes / (holdings.messages | 1) > MOST_BYTES)
        count = MOST_BYTES / (holdings.bytes / (holdings.messages | 1)) + 1;
    run->engine = engine;
    run->walk = walk;
    run->count = count < WALKERS ? (uint32_t)count : WALKERS;
    run->walking = run->count;
    uint64_t stretch = stretch_of(&holdings, (count + run->count - 1) / run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        struct walker *walker = &run->walkers[i];
        walker->run = run;
        walker->from = walk->sequence + i * stretch;
        walker->until = walker->from + stretch;
        walker->end = &walker->first;
    }
    uint32_t begun = run->count; /* the last to be done frees the run */
    for (uint32_t i = 0; i < begun; i++)
        step(&run->walkers[i], 0);
}
