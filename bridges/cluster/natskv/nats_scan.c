#include "bridges/cluster/natskv/nats_scan.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_entry.h"
#include "bridges/cluster/natskv/nats_look.h"
#include "bridges/cluster/natskv/nats_subject.h"
#include "bridges/cluster/natskv/nats_walk.h"

#define SEQUENCE_BITS 52u
#define SEQUENCE_MASK ((UINT64_C(1) << SEQUENCE_BITS) - 1)

/* Messages that are asked for at a time; and entries that are looked at for each that a page may
 * have. */
#define MIN_BATCH       64u /* of one request; a walk makes one for each */
#define MAX_BATCH       1000u
#define LOOKS_PER_ENTRY 64u

/* The least bytes that are asked for at a time. */
#define MIN_BYTES (64u << 10)
#define MAX_BYTES (4u << 20)

/* A batch of which nothing comes for this long is asked for again. */
#define BATCH_MS 3000u

/* A batch that brought nothing, though there is more, is asked for again after this time. */
#define SUPERSEDED_MS 100u

/* A page that has made progress ends after this time, or half of what it has: its cursor keeps the
 * progress, which a page that times out would lose. */
#define PAGE_MS 1000u

/* Status numbers of replies to DIRECT.GET. */
#define END_OF_BATCH 204u
#define NO_MESSAGES  404u

struct shard_scan {
    struct link_call call; /* for a batch that any replica may answer */
    struct nats_walk walk; /* for a batch from the leader */
    struct nats_engine *engine;
    struct engine_operation *operation;
    uint32_t shard;
    uint64_t sequence; /* sequence of the next message to look at */
    uint64_t before;   /* sequence of the last message of this batch; 0: none yet */
    uint64_t page_ms;  /* when the page ends, if it has made progress */
    uint64_t deadline_ms;
    uint64_t looked; /* entries that were looked at */
    uint32_t visited;
    uint64_t visited_bytes;
    unsigned batches; /* number of batches of this page */
    bool superseded;  /* the batch has brought nothing yet */
    bool got_on;      /* the page has made progress */
};

#define NO_SENSE "an entry of the bucket makes no sense"

static void end(struct shard_scan *scan, enum kv_status status, const char *sentence)
{
    struct engine_operation *operation = scan->operation;
    bool over = scan->shard == scan->engine->bucket.shards;
    operation->number =
        over ? 0 : (int64_t)((uint64_t)scan->shard << SEQUENCE_BITS | scan->sequence);
    free(scan);
    nats_finish(operation, status, sentence);
}

static uint32_t bounded(uint64_t number, uint32_t least, uint32_t most)
{
    return number < least ? least : number > most ? most : (uint32_t)number;
}

/* Returns how many messages to ask for, and how many bytes. What has no room in the page is read
 * for nothing, so the first batch has what the last full page had, and a little more; later batches
 * are larger each time, since what comes may not be for the page. */
static uint32_t batch_of(const struct shard_scan *scan, uint32_t least, uint32_t *bytes)
{
    const struct page_fit *fit = &scan->engine->fits[scan->operation->keys_only];
    uint64_t batch = atomic_load_explicit(&fit->entries, memory_order_relaxed);
    uint64_t size = atomic_load_explicit(&fit->bytes, memory_order_relaxed);
    uint32_t more = 2 * (scan->batches < 5 ? scan->batches : 5);
    *bytes = bounded((size + size / 4) << more, MIN_BYTES, MAX_BYTES);
    if (batch == 0)
        batch = scan->operation->limit;
    return bounded((batch + batch / 4 + 1) << more, least, MAX_BATCH);
}

static bool make_request(struct link_call *call, const char *reply, natsMsg **message)
{
    struct shard_scan *scan = (struct shard_scan *)call;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 32], json[128];
    uint32_t bytes, batch = batch_of(scan, MIN_BATCH, &bytes);
    nats_bucket_stream(&scan->engine->bucket, scan->shard, stream);
    snprintf(subject, sizeof subject, "$JS.API.DIRECT.GET.%s", stream);
    int size = snprintf(json, sizeof json,
                        "{\"seq\":%" PRIu64 ",\"batch\":%" PRIu32 ",\"max_bytes\":%" PRIu32 "}",
                        scan->sequence, batch, bytes);
    return natsMsg_Create(message, subject, reply, json, size) == NATS_OK;
}

static bool key_begins_with(struct kv_slice key, struct kv_slice prefix)
{
    return key.size >= prefix.size &&
           (prefix.size == 0 || memcmp(key.data, prefix.data, prefix.size) == 0);
}

/* Shows an entry to the visitor, if the message is one. False: the visitor had no room for it. */
static bool show_nats_entry(struct shard_scan *scan, const struct nats_entry *entry,
                            const char *subject)
{
    uint8_t bytes[NATSKV_MAX_KEY_BYTES];
    char stream[NATS_STREAM_NAME_BYTES];
    size_t size;
    scan->sequence = entry->sequence;
    nats_bucket_stream(&scan->engine->bucket, scan->shard, stream);
    size_t before = strlen(stream) + 2; /* "KV_B_3" is as long as "$KV.B_3" without the dollar */
    if (entry->present && subject && strlen(subject) > before &&
        nats_subject_decode(subject + before, bytes, sizeof bytes, &size)) {
        const struct kvstore_scanned scanned = {.key = kv_slice(bytes, size),
                                                .value = entry->value,
                                                .version = entry->sequence * NATSKV_FOLD,
                                                .expiry_ms = entry->expiry_ms};
        if (key_begins_with(scanned.key, scan->operation->key)) {
            if (!scan->operation->visit(scan->operation->context, &scanned))
                return false;
            scan->visited++;
            scan->visited_bytes += size + entry->value.size;
        }
    }
    scan->sequence++;
    scan->looked++;
    scan->superseded = false;
    scan->got_on = true;
    return true;
}

/* Notes how much the page had, since the visitor has no room for more: the next page will be as
 * large. A visitor that had no room at all says nothing of others, which have more. */
static void note_fit(const struct shard_scan *scan)
{
    struct page_fit *fit = &scan->engine->fits[scan->operation->keys_only];
    if (scan->visited == 0 && atomic_load_explicit(&fit->entries, memory_order_relaxed) > 0)
        return;
    atomic_store_explicit(&fit->entries, scan->visited > 0 ? scan->visited : 1,
                          memory_order_relaxed);
    atomic_store_explicit(&fit->bytes, scan->visited_bytes, memory_order_relaxed);
}

static bool page_is_over(const struct shard_scan *scan)
{
    return scan->got_on && clock_monotonic_coarse_ms() >= scan->page_ms;
}

static void ask_next_batch(struct shard_scan *scan);

/* Continues after a batch; shard_is_over: with the next shard, if there is one. */
static void go_on(struct shard_scan *scan, bool shard_is_over)
{
    if (shard_is_over) {
        scan->shard++;
        scan->sequence = 1;
        scan->superseded = false;
        scan->got_on = true;
    }
    bool over = scan->shard == scan->engine->bucket.shards;
    if (over || scan->looked >= (uint64_t)scan->operation->limit * LOOKS_PER_ENTRY)
        end(scan, KV_OK, NULL);
    else
        ask_next_batch(scan);
}

static bool nothing_pending(natsMsg *message)
{
    const char *pending = nats_entry_added(message, "Nats-Num-Pending");
    return pending && strcmp(pending, "0") == 0;
}

/* Returns true if messages are missing before this one, or before the end of the batch, as may
 * happen when the connection changes: each message says which one the server sent before it, the
 * first says 0. */
static bool has_gap(const struct shard_scan *scan, natsMsg *message)
{
    const char *before = nats_entry_added(message, "Nats-Last-Sequence");
    return before && strtoull(before, NULL, 10) != scan->before;
}

/* Takes a message of the batch: link_call.answer. */
static bool take_message(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                         bool repeats)
{
    struct shard_scan *scan = (struct shard_scan *)call;
    (void)repeats;
    if (outcome != LINK_ANSWERED) {
        scan->superseded = false; /* it has waited long enough */
        ask_next_batch(scan);
        return false;
    }
    unsigned status = nats_entry_status(message);
    if ((status == 0 || status == END_OF_BATCH) && has_gap(scan, message)) {
        ask_next_batch(scan); /* continue with what is missing */
        return false;
    }
    if (status == NO_MESSAGES || status == END_OF_BATCH) {
        scan->batches++;
        go_on(scan, status == NO_MESSAGES || nothing_pending(message));
        return false;
    }
    if (status != 0) {
        end(scan, KV_IO, "the servers refused to read a batch of entries");
        return false;
    }
    struct nats_entry entry;
    if (nats_entry_from_message(message, false, &entry) != KV_OK) {
        end(scan, KV_IO, NO_SENSE);
        return false;
    }
    scan->before = entry.sequence;
    bool has_no_room = !show_nats_entry(scan, &entry, nats_entry_added(message, "Nats-Subject"));
    if (has_no_room)
        note_fit(scan);
    bool full = has_no_room || scan->visited == scan->operation->limit || page_is_over(scan);
    if (full)
        end(scan, KV_OK, NULL);
    return !full;
}

/* Takes what a walk found: nats_walk.done. */
static void take_walk(struct nats_walk *walk)
{
    struct shard_scan *scan =
        (struct shard_scan *)((char *)walk - offsetof(struct shard_scan, walk));
    bool full = false;
    for (struct walked_message *message = walk->messages; message && !full;
         message = message->next) {
        bool has_no_room = !show_nats_entry(scan, &message->entry, message->subject);
        if (has_no_room)
            note_fit(scan);
        full = has_no_room || scan->visited == scan->operation->limit;
    }
    nats_walk_free(walk);
    if (!full && !walk->is_end) {
        scan->got_on |= walk->sequence > scan->sequence;
        scan->sequence = walk->sequence;
    }
    if (full || (walk->status != KV_OK && scan->got_on))
        end(scan, KV_OK, NULL);
    else if (walk->status != KV_OK)
        end(scan, walk->status,
            walk->status == KV_NO_SERVER ? NATS_NO_QUORUM
            : walk->status == KV_IO      ? NO_SENSE
                                         : NULL);
    else
        go_on(scan, walk->is_end);
}

/* Asks for the next batch, or ends the page if its time is over. */
static void ask_next_batch(struct shard_scan *scan)
{
    uint64_t now_ms = clock_monotonic_coarse_ms(), until_ms = now_ms + BATCH_MS;
    if (page_is_over(scan) || now_ms >= scan->deadline_ms) {
        end(scan, scan->got_on ? KV_OK : KV_NO_SERVER, scan->got_on ? NULL : NATS_NO_QUORUM);
        return;
    }
    if (!scan->engine->read_any && nats_look_replicas(scan->engine, scan->shard) > 1) {
        uint32_t unused;
        scan->walk = (struct nats_walk){.shard = scan->shard,
                                        .sequence = scan->sequence,
                                        .count = batch_of(scan, 1, &unused),
                                        .deadline_ms = scan->deadline_ms,
                                        .enough_ms = scan->page_ms,
                                        .done = take_walk};
        scan->batches++;
        nats_walk_begin(scan->engine, &scan->walk);
        return;
    }
    uint64_t begin_ms = scan->superseded ? now_ms + SUPERSEDED_MS : 0;
    scan->superseded = true;
    scan->before = 0;
    scan->call = (struct link_call){.deadline_ms =
                                        until_ms < scan->deadline_ms ? until_ms : scan->deadline_ms,
                                    .begin_ms = begin_ms,
                                    .many = true,
                                    .make = make_request,
                                    .answer = take_message};
    if (!nats_link_send(scan->engine->link, &scan->call))
        end(scan, scan->got_on ? KV_OK : KV_OVERLOADED, NULL);
}

void nats_scan_begin(struct nats_engine *engine, struct engine_operation *operation)
{
    uint64_t shard = operation->cursor >> SEQUENCE_BITS;
    uint64_t sequence = operation->cursor & SEQUENCE_MASK;
    operation->number = 0;
    if (operation->cursor == 0)
        sequence = 1;
    if (operation->atomic) {
        nats_finish(operation, KV_UNSUPPORTED,
                    "the engine nats has no atomic scan: entries lie on several servers");
        return;
    }
    if (shard >= engine->bucket.shards || sequence == 0) {
        nats_finish(operation, KV_BAD_REQUEST, "the cursor is none of a scan of this bucket");
        return;
    }
    struct shard_scan *scan = calloc(1, sizeof *scan);
    if (!scan) {
        nats_finish(operation, KV_NO_MEMORY, NULL);
        return;
    }
    scan->engine = engine;
    scan->operation = operation;
    scan->shard = (uint32_t)shard;
    scan->sequence = sequence;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    nats_bound_deadline(operation);
    scan->deadline_ms = operation->deadline_ms;
    uint64_t half_ms = scan->deadline_ms > now_ms ? (scan->deadline_ms - now_ms) / 2 : 0;
    scan->page_ms = now_ms + (half_ms < PAGE_MS ? half_ms : PAGE_MS);
    ask_next_batch(scan);
}
