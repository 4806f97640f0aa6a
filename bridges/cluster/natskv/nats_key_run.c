#include "bridges/cluster/natskv/nats_key_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_json.h"
#include "bridges/cluster/natskv/nats_look.h"
#include "bridges/cluster/natskv/nats_refusal.h"

/* A write that others come before this many times is given up. */
#define MAX_TRIES 64u

/* Ends ----------------------------------------------------------------------------------------- */

/* Ends the run: its operations are done, with the outcomes that they have. */
static void end_run(struct key_queue *queue)
{
    struct engine_operation *operation = queue->run;
    queue->run = NULL;
    nats_rewrite_free(&queue->rewrite);
    while (operation) {
        struct engine_operation *next = operation->next;
        operation->next = NULL;
        operation->done(operation);
        operation = next;
    }
    nats_entry_free(&queue->entry);
    queue->over(queue);
}

static void end_all(struct key_queue *queue, enum kv_status status, const char *sentence)
{
    for (struct engine_operation *operation = queue->run; operation; operation = operation->next) {
        operation->status = status;
        operation->sentence = sentence;
    }
    end_run(queue);
}

/* The write has failed, or perhaps not. Operations whose outcomes do not depend on it keep them. */
static void end_unwritten(struct key_queue *queue, enum kv_status status, const char *sentence)
{
    nats_rewrite_fail(queue->run, status, sentence);
    end_run(queue);
}

/* Reading -------------------------------------------------------------------------------------- */

/* Returns true if any replica may answer the read. What a write depends on is asked of the leader:
 * a replica that is behind would refuse a version that was read a moment ago. If there is one
 * replica only, it is the leader, and answers faster this way. */
static bool is_direct(const struct key_queue *queue)
{
    return (queue->reads && queue->engine->read_any) ||
           nats_look_replicas(queue->engine, queue->shard) == 1;
}

static bool make_read(struct link_call *call, const char *reply, natsMsg **message)
{
    struct key_queue *queue = (struct key_queue *)((char *)call - offsetof(struct key_queue, call));
    struct nats_engine *engine = queue->engine;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 40];
    char json[NATS_SUBJECT_BYTES + 32];
    nats_bucket_stream(&engine->bucket, queue->shard, stream);
    queue->direct = is_direct(queue);
    snprintf(subject, sizeof subject,
             queue->direct ? "$JS.API.DIRECT.GET.%s" : "$JS.API.STREAM.MSG.GET.%s", stream);
    int size = snprintf(json, sizeof json, "{\"last_by_subj\":\"%s\"}", queue->subject);
    return natsMsg_Create(message, subject, reply, json, size) == NATS_OK;
}

/* Gives the operations of a run of reads their outcomes. */
static void tell_entry(struct key_queue *queue)
{
    const struct nats_entry *entry = &queue->entry;
    for (struct engine_operation *operation = queue->run; operation; operation = operation->next) {
        operation->status = entry->present ? KV_OK : KV_NOT_FOUND;
        if (!entry->present)
            continue;
        operation->entry = (struct kvstore_entry){.version = entry->sequence * NATSKV_FOLD,
                                                  .expiry_ms = entry->expiry_ms,
                                                  .value_bytes = (uint32_t)entry->value.size};
        operation->found_value = entry->value;
    }
    end_run(queue);
}

static void write_on(struct key_queue *queue);
static void read_then(struct key_queue *queue, uint64_t begin_ms);

/* Reads in the entry whether a write that others came before, or that may have been applied, was
 * ours. True: the run has ended. */
static bool resolve_doubt(struct key_queue *queue)
{
    if (!queue->doubtful)
        return false;
    queue->doubtful = false;
    if (queue->entry.sequence > 0 && strcmp(queue->entry.message_id, queue->message_id) == 0) {
        nats_rewrite_tell_versions(&queue->rewrite, queue->run, queue->entry.sequence);
        end_run(queue);
    } else {
        end_unwritten(queue, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    }
    return true;
}

/* The answer to a read: link_call.answer. */
static bool take_entry(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                       bool repeats)
{
    struct key_queue *queue = (struct key_queue *)((char *)call - offsetof(struct key_queue, call));
    (void)repeats;
    enum kv_status status = KV_NO_SERVER;
    nats_entry_free(&queue->entry);
    if (outcome == LINK_ANSWERED && queue->direct)
        status = nats_entry_from_message(message, !queue->reads, &queue->entry);
    else if (outcome == LINK_ANSWERED)
        status = nats_entry_from_json(
            kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)),
            &queue->entry);
    if (status == KV_NO_SERVER &&
        outcome == LINK_ANSWERED) { /* the server said "come back later" */
        read_then(queue, clock_monotonic_coarse_ms() + 100);
        return false;
    }
    if (status != KV_OK && queue->doubtful)
        end_unwritten(queue, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    else if (status != KV_OK)
        end_all(queue, status, status == KV_NO_SERVER ? NATS_NO_QUORUM : NULL);
    else if (queue->reads)
        tell_entry(queue);
    else if (!resolve_doubt(queue))
        write_on(queue);
    return false;
}

static void read_then(struct key_queue *queue, uint64_t begin_ms)
{
    queue->call = (struct link_call){.deadline_ms = queue->deadline_ms,
                                     .begin_ms = begin_ms,
                                     .again_ms = NATS_AGAIN_MS,
                                     .make = make_read,
                                     .answer = take_entry};
    if (nats_link_send(queue->engine->link, &queue->call))
        return;
    if (queue->doubtful)
        end_unwritten(queue, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    else
        end_all(queue, KV_OVERLOADED, NULL);
}

/* Writing -------------------------------------------------------------------------------------- */

static bool make_write(struct link_call *call, const char *reply, natsMsg **message)
{
    struct key_queue *queue = (struct key_queue *)((char *)call - offsetof(struct key_queue, call));
    const struct nats_writing writing = {.subject = queue->subject,
                                         .value = queue->rewrite.value,
                                         .expiry_ms = queue->rewrite.expiry_ms,
                                         .tombstone = !queue->rewrite.present,
                                         .conditional = queue->conditional,
                                         .sequence = queue->expected,
                                         .message_id = queue->message_id};
    return nats_entry_to_message(&writing, reply, message);
}

/* Others wrote before: reads the entry again, after a random time that grows with each try. If the
 * write is doubtful, the entry is read however many tries there were, since it says what became of
 * the write (resolve_doubt). */
static void try_again(struct key_queue *queue)
{
    atomic_fetch_add_explicit(&queue->engine->conflicts, 1, memory_order_relaxed);
    if (++queue->tries > MAX_TRIES && !queue->doubtful) {
        end_unwritten(queue, KV_OVERLOADED, "others write this key all the time: try again later");
        return;
    }
    unsigned most_ms = queue->tries < 6 ? 1u << queue->tries : 64u;
    uint64_t wait_ms = queue->tries > 2 ? random_secret() % most_ms : 0;
    read_then(queue, wait_ms > 0 ? clock_monotonic_coarse_ms() + wait_ms : 0);
}

static void send_write(struct key_queue *queue, uint64_t begin_ms);

/* The server refused this copy of the write. If an earlier copy has no answer, it may have been
 * applied: then the entry says so. */
static void take_refusal(struct key_queue *queue, struct kv_slice failure, bool repeats)
{
    enum refusal_kind kind = nats_refusal_kind(failure);
    queue->doubtful |= repeats;
    if (kind == REFUSAL_FOR_NOW || kind == REFUSAL_IN_PROCESS) {
        queue->doubtful |= kind == REFUSAL_IN_PROCESS;
        send_write(queue, clock_monotonic_coarse_ms() + 50);
    } else if (kind == REFUSAL_CHANGED) {
        try_again(queue);
    } else {
        const char *sentence;
        enum kv_status status = nats_refusal_report(failure, &sentence);
        if (queue->doubtful)
            read_then(queue, 0);
        else
            end_unwritten(queue, status, sentence);
    }
}

/* Ends a write that no server has answered. */
static void end_unanswered(struct key_queue *queue, enum link_outcome outcome)
{
    if (outcome == LINK_SILENT || (outcome == LINK_NOT_SENT && queue->doubtful))
        end_unwritten(queue, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    else if (outcome == LINK_NOT_SENT)
        end_unwritten(queue, KV_NO_SERVER, NATS_NO_QUORUM);
    else if (queue->doubtful)
        read_then(queue, 0);
    else
        end_unwritten(queue, KV_VALUE_TOO_BIG,
                      "the value is larger than the servers take now: their max_payload is less "
                      "than it was when serverk started");
}

/* The answer to a write: link_call.answer. */
static bool take_acknowledgement(struct link_call *call, enum link_outcome outcome,
                                 natsMsg *message, bool repeats)
{
    struct key_queue *queue = (struct key_queue *)((char *)call - offsetof(struct key_queue, call));
    uint64_t sequence = 0;
    if (outcome != LINK_ANSWERED) {
        end_unanswered(queue, outcome);
        return false;
    }
    struct kv_slice answer =
        kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
    struct kv_slice failure = nats_json_member(answer, "error");
    if (failure.size > 0) {
        take_refusal(queue, failure, repeats);
    } else if (nats_json_number(answer, "seq", &sequence) && sequence > 0) {
        nats_rewrite_tell_versions(&queue->rewrite, queue->run, sequence);
        end_run(queue);
    } else {
        end_unwritten(queue, KV_OUTCOME_UNKNOWN, "the server's answer makes no sense");
    }
    return false;
}

static void send_write(struct key_queue *queue, uint64_t begin_ms)
{
    queue->call = (struct link_call){.deadline_ms = queue->deadline_ms,
                                     .begin_ms = begin_ms,
                                     .again_ms = NATS_AGAIN_MS,
                                     .make = make_write,
                                     .answer = take_acknowledgement};
    if (nats_link_send(queue->engine->link, &queue->call))
        return;
    end_unwritten(queue, queue->doubtful ? KV_OUTCOME_UNKNOWN : KV_OVERLOADED, NULL);
}

static void name_message(struct key_queue *queue)
{
    struct nats_engine *engine = queue->engine;
    uint64_t number = atomic_fetch_add_explicit(&engine->message_number, 1, memory_order_relaxed);
    snprintf(queue->message_id, sizeof queue->message_id, "%s-%" PRIu64,
             nats_link_instance(engine->link), number);
}

/* Executes the run on the entry that was read (queue->blind: none was), and writes the result. */
static void write_on(struct key_queue *queue)
{
    struct nats_engine *engine = queue->engine;
    nats_rewrite_run(&queue->rewrite, queue->blind ? NULL : &queue->entry, queue->run,
                     engine->max_value_bytes);
    if (queue->rewrite.changes == 0) {
        end_run(queue);
        return;
    }
    if (!queue->blind) {
        queue->conditional = true;
        queue->expected = queue->entry.sequence;
    }
    queue->blind = false;
    if (queue->tries == 0)
        atomic_fetch_add_explicit(&engine->folded, queue->rewrite.changes - 1,
                                  memory_order_relaxed);
    name_message(queue);
    send_write(queue, 0);
}

/* Returns true if the outcome does not depend on the entry: all operations are puts without a
 * condition. */
static bool is_unconditional(const struct key_queue *queue)
{
    for (const struct engine_operation *operation = queue->run; operation;
         operation = operation->next)
        if (operation->opcode != ENGINE_PUT || operation->put.condition != KVSTORE_ALWAYS ||
            operation->put.keep_expiry)
            return false;
    return true;
}

/* Returns true if the run is one put of a key that must be absent, a condition that the server can
 * check. It cannot check that an entry has a version: for the server a tombstone, or an expired
 * entry, is a message with a sequence like any other. */
static bool is_if_absent(const struct key_queue *queue)
{
    const struct engine_operation *operation = queue->run;
    return queue->run_count == 1 && operation->opcode == ENGINE_PUT &&
           operation->put.condition == KVSTORE_IF_ABSENT && !operation->put.keep_expiry;
}

void nats_key_run_begin(struct key_queue *queue)
{
    queue->doubtful = queue->conditional = queue->blind = false;
    if (queue->reads) {
        read_then(queue, 0);
        return;
    }
    if (is_unconditional(queue)) {
        queue->blind = true;
    } else if (is_if_absent(queue)) {
        queue->expected = 0;
        queue->blind = queue->conditional = true;
    }
    if (queue->blind)
        write_on(queue);
    else
        read_then(queue, 0);
}
