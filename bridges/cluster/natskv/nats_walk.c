#include "bridges/cluster/natskv/nats_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_json.h"
#include "bridges/cluster/natskv/nats_look.h"

/* The number of requests under way at first; each answer adds one. */
#define FIRST_WALKERS 4u
#define WALKERS       32u

/* How many messages a part has on average if there are fewer messages than sequences: a walker that
 * comes to the end of its part there reads the first message of the next one for nothing. */
#define SPARSE_PART 4u

/* A stream without a leader is asked again after this time. */
#define LATER_MS 100u

/* No more parts are begun when the values that were read have this many bytes. */
#define MOST_BYTES (2u << 20)

/* Walks through a part of the stretch, from one sequence to another. Parts are begun in their
 * order, and each that was begun is walked through to its end, so that nothing is read in vain. */
struct walker {
    struct link_call call;
    struct walk_run *run;
    uint64_t from, until; /* from: the next sequence to read */
    bool has_end;         /* when it asked, nothing was at `from` or behind */
    struct walked_message *first, **end;
};

struct walk_run {
    struct nats_engine *engine;
    struct nats_walk *walk;
    _Atomic uint64_t bytes;
    _Atomic uint32_t walking;
    _Atomic uint32_t begun; /* number of parts that were begun */
    _Atomic bool has_end;   /* a part reached the end of the stream */
    _Atomic int status;     /* the first failure */
    uint32_t count;         /* number of parts */
    struct walker walkers[];
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

/* Puts together what all walkers have found, and frees what is behind a part that was not walked
 * through. A walker that came to the end of the stream counts as one that was not, too: while those
 * before it read on, messages still before them may be written again, and so move behind that end.
 * Only the first walker has nobody before it. */
static void join_walked_parts(struct walk_run *run)
{
    struct nats_walk *walk = run->walk;
    struct walked_message **end = &walk->messages, *rest = NULL, **rest_end = &rest;
    bool goes_on = true;
    walk->messages = NULL;
    walk->is_end = run->walkers[0].has_end;
    uint32_t begun = atomic_load(&run->begun);
    for (uint32_t i = 0; i < begun; i++) {
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

static bool is_enough(struct walk_run *run)
{
    return atomic_load(&run->bytes) >= MOST_BYTES || atomic_load(&run->status) != KV_OK ||
           atomic_load(&run->has_end) || clock_monotonic_coarse_ms() >= run->walk->enough_ms;
}

static void step(struct walker *walker, uint64_t begin_ms);

/* Begins the next part, if there is one and more is wanted. The caller counts as a walker. */
static void begin_part(struct walk_run *run)
{
    uint32_t part = atomic_load(&run->begun);
    if (is_enough(run) || atomic_load(&run->walking) > WALKERS)
        return;
    while (part < run->count && !atomic_compare_exchange_weak(&run->begun, &part, part + 1))
        ;
    if (part >= run->count)
        return;
    atomic_fetch_add(&run->walking, 1);
    step(&run->walkers[part], 0);
}

/* Ends the walker at its end, or at that of the stream. */
static void stop_walker(struct walker *walker, enum kv_status status)
{
    struct walk_run *run = walker->run;
    int none = KV_OK;
    if (status != KV_OK)
        atomic_compare_exchange_strong(&run->status, &none, (int)status);
    if (walker->has_end)
        atomic_store(&run->has_end, true);
    begin_part(run);
    begin_part(run);
    if (atomic_fetch_sub(&run->walking, 1) == 1)
        join_walked_parts(run);
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

/* The answer to a step: link_call.answer. */
static bool take_step(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                      bool repeats)
{
    struct walker *walker = (struct walker *)call;
    struct nats_entry entry;
    (void)repeats;
    if (outcome != LINK_ANSWERED) {
        stop_walker(walker, KV_NO_SERVER);
        return false;
    }
    struct kv_slice answer =
        kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
    enum kv_status status = nats_entry_from_json(answer, &entry);
    if (status == KV_NO_SERVER) { /* the server said "come back later" */
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
    if (status != KV_OK || walker->has_end || walker->from >= walker->until)
        stop_walker(walker, status);
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
        stop_walker(walker, KV_OVERLOADED);
}

/* Divides what should have walk->count messages, or MOST_BYTES, into parts of *stretch sequences.
 * Returns the number of parts. */
static uint32_t parts_of(const struct nats_walk *walk, const struct nats_holdings *holdings,
                         uint64_t *stretch)
{
    uint64_t count = walk->count, messages = holdings->messages, in_part = 1;
    *stretch = 1;
    if (messages > 0 && count * holdings->bytes / messages > MOST_BYTES)
        count = MOST_BYTES / (holdings->bytes / messages) + 1;
    if (messages > 0 && holdings->last_sequence - holdings->first_sequence >= messages) {
        uint64_t all = holdings->last_sequence - holdings->first_sequence + 1;
        in_part = SPARSE_PART;
        *stretch = (uint64_t)((double)all / (double)messages * (double)in_part);
    }
    return (uint32_t)((count + in_part - 1) / in_part);
}

void nats_walk_begin(struct nats_engine *engine, struct nats_walk *walk)
{
    struct nats_holdings holdings;
    uint64_t stretch;
    nats_look_again(engine, walk->shard);
    nats_look_tell(engine, walk->shard, &holdings);
    uint32_t count = parts_of(walk, &holdings, &stretch);
    struct walk_run *run = calloc(1, sizeof *run + count * sizeof run->walkers[0]);
    if (!run) {
        *walk = (struct nats_walk){
            .sequence = walk->sequence, .done = walk->done, .status = KV_NO_MEMORY};
        walk->done(walk);
        return;
    }
    run->engine = engine;
    run->walk = walk;
    run->count = count;
    run->walking = run->begun = 1;
    for (uint32_t i = 0; i < count; i++) {
        struct walker *walker = &run->walkers[i];
        walker->run = run;
        walker->from = walk->sequence + i * stretch;
        walker->until = walker->from + stretch;
        walker->end = &walker->first;
    }
    for (uint32_t i = 1; i < FIRST_WALKERS; i++)
        begin_part(run);
    step(&run->walkers[0], 0); /* the last step, since it keeps the run */
}
