#include "bridges/cluster/natskv/nats_transact.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "bridges/cluster/natskv/nats_json.h"
#include "bridges/cluster/natskv/nats_look.h"
#include "bridges/cluster/natskv/nats_plan.h"
#include "bridges/cluster/natskv/nats_refusal.h"
#include "bridges/cluster/natskv/nats_shard.h"
#include "bridges/cluster/natskv/nats_subject.h"
#include "bridges/cluster/natskv/nats_turns.h"
#include "common/numbers/random.h"
#include "common/report/log.h"
#include "common/time/clock.h"

#define SEVERAL_SHARDS                                                                      \
    "the keys of a transaction must lie in one shard of the cluster: a tag in braces, the " \
    "same in all of them, puts them together, as in {user:42}name and {user:42}mail"
#define SEVERAL_SHARDS_UNTAGGED                                                            \
    "the keys of a transaction must lie in one shard of the cluster, and this bucket was " \
    "made before tags in braces put keys together: a new one, to which clientk migrate "   \
    "brings the data, has that"
#define GUARDS_MIXED_UP                                                                 \
    "a transaction that reads keys which it does not write needs nats-server 2.12.14, " \
    "2.14.4 or newer"
#define MANY_CHANGES "nothing was done: others change these keys all the time, try again later"
#define NO_BATCH     "nothing was done: the cluster did not take the transaction in time"

#define TOO_MUCH_READ "the values of the keys that the transaction reads have more than 64 MiB"

/* A transaction whose keys others change this many times in between is given up. */
#define TRANSACT_TRIES 64u

/* What the entries of a transaction, which are held while it is under way, may have together. */
#define READ_MOST_BYTES (64u << 20)

/* A message that has only a condition is written to this key; no key is encoded like this, so no
 * daemon shows it, and each such message replaces the one before. */
#define GUARD_KEY "=guard"

#define BATCH_ID_BYTES 48u

/* The read of a key's entry. */
struct planned_read {
    struct link_call call;
    struct nats_transact *work;
    char *subject;
    enum kv_status status;
    struct nats_entry entry; /* as it was read; goes to the plan */
};

/* A message of the batch: of a key that is written, or only guarded. */
struct batch_message {
    uint8_t key;
    bool guards;
};

/* A transaction under way. One thread at a time works on it, the one that brings the last answer;
 * reads are answered by several at once. */
struct nats_transact {
    struct shard_turn turn; /* the first member */
    struct nats_engine *engine;
    struct engine_operation *operation;
    uint32_t shard;
    uint64_t deadline_ms;
    struct nats_plan plan;
    uint64_t hashes[KVSTORE_MAX_TRANSACTION_STEPS];
    char *subjects; /* of all keys, one behind the other */

    bool is_direct;      /* the reads: any replica answers */
    bool is_second_read; /* nothing is to be written: has anything changed since it was read? */
    enum kv_status judged;
    _Atomic uint32_t reads_left;
    _Atomic uint64_t read_bytes; /* of the values that the reads under way have brought */
    struct planned_read reads[KVSTORE_MAX_TRANSACTION_STEPS];

    struct link_call commit;
    struct batch_message messages[KVSTORE_MAX_TRANSACTION_STEPS];
    uint32_t message_count;
    uint64_t first_id; /* the messages' ids are numbered from it */
    uint32_t sent;     /* how often the batch was made */
    bool doubtful;     /* an earlier copy of the batch may have been stored */
    unsigned tries;    /* that came to nothing since others changed keys */
};

/* Ends ----------------------------------------------------------------------------------------- */

static void free_transact(struct nats_transact *work)
{
    nats_plan_free(&work->plan);
    for (uint32_t i = 0; i < work->plan.key_count; i++)
        nats_entry_free(&work->reads[i].entry);
    free(work->subjects);
    free(work);
}

/* Ends a transaction that has had its turn. */
static void end_transact(struct nats_transact *work, enum kv_status status, const char *sentence)
{
    struct engine_operation *operation = work->operation;
    if (status != work->judged) { /* no guard and no step is to blame for it */
        operation->transacted.at = UINT32_MAX;
        operation->transacted.in_guard = false;
    }
    nats_turns_end(&work->engine->turns[work->shard], &work->turn);
    free_transact(work);
    nats_finish(operation, status, sentence);
}

/* Ends one of which nobody knows whether it was done. */
static void end_unknown(struct nats_transact *work)
{
    end_transact(work, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
}

/* The batch is stored; its last message has that sequence. */
static void end_stored(struct nats_transact *work, uint64_t last_sequence)
{
    for (uint32_t i = 0; i < work->message_count; i++) {
        const struct batch_message *message = &work->messages[i];
        uint64_t sequence = last_sequence - (work->message_count - 1 - i);
        if (!message->guards)
            work->plan.keys[message->key].result->written.version = sequence * NATSKV_FOLD;
    }
    atomic_fetch_add_explicit(&work->engine->transactions, 1, memory_order_relaxed);
    end_transact(work, KV_OK, NULL);
}

/* Reading -------------------------------------------------------------------------------------- */

static bool make_key_read(struct link_call *call, const char *reply, natsMsg **message)
{
    const struct planned_read *read = (struct planned_read *)call;
    const struct nats_transact *work = read->work;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 40];
    char json[NATS_SUBJECT_BYTES + 32];
    nats_bucket_stream(&work->engine->bucket, work->shard, stream);
    snprintf(subject, sizeof subject,
             work->is_direct ? "$JS.API.DIRECT.GET.%s" : "$JS.API.STREAM.MSG.GET.%s", stream);
    int size = snprintf(json, sizeof json, "{\"last_by_subj\":\"%s\"}", read->subject);
    return natsMsg_Create(message, subject, reply, json, size) == NATS_OK;
}

static void take_reads(struct nats_transact *work);

static void end_key_read(struct planned_read *read, enum kv_status status)
{
    struct nats_transact *work = read->work;
    read->status = status;
    if (atomic_fetch_sub(&work->reads_left, 1) == 1)
        take_reads(work);
}

static bool take_key_read(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                          bool repeats);

static void send_key_read(struct planned_read *read, uint64_t begin_ms)
{
    read->call = (struct link_call){.deadline_ms = read->work->deadline_ms,
                                    .begin_ms = begin_ms,
                                    .again_ms = NATS_AGAIN_MS,
                                    .make = make_key_read,
                                    .answer = take_key_read};
    if (!nats_link_send(read->work->engine->link, &read->call))
        end_key_read(read, KV_OVERLOADED);
}

/* The answer to a read: link_call.answer. */
static bool take_key_read(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                          bool repeats)
{
    struct planned_read *read = (struct planned_read *)call;
    enum kv_status status = KV_NO_SERVER;
    (void)repeats;
    nats_entry_free(&read->entry);
    if (outcome == LINK_ANSWERED && read->work->is_direct)
        status = nats_entry_from_message(message, true, &read->entry);
    else if (outcome == LINK_ANSWERED)
        status = nats_entry_from_json(
            kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)),
            &read->entry);
    size_t bytes = status == KV_OK ? read->entry.value.size : 0;
    if (atomic_fetch_add(&read->work->read_bytes, bytes) + bytes > READ_MOST_BYTES) {
        nats_entry_free(&read->entry);
        status = KV_LIMIT;
    }
    if (status == KV_NO_SERVER && outcome == LINK_ANSWERED) /* "come back later" */
        send_key_read(read, clock_monotonic_coarse_ms() + 100);
    else
        end_key_read(read, status);
    return false;
}

/* Whether the key is read: what the plan depends on, or, in doubt, what the batch has written. */
static bool is_asked_for(const struct nats_transact *work, uint32_t key)
{
    const struct planned_key *planned = &work->plan.keys[key];
    return work->doubtful ? planned->is_written : planned->is_read;
}

/* A read of several keys is one of a single server if there is no other. */
static void read_keys(struct nats_transact *work, uint64_t begin_ms)
{
    work->is_direct = nats_look_replicas(work->engine, work->shard) == 1;
    atomic_store(&work->read_bytes, 0);
    atomic_store(&work->reads_left, work->plan.key_count + 1);
    for (uint32_t i = 0; i < work->plan.key_count; i++) {
        if (is_asked_for(work, i))
            send_key_read(&work->reads[i], begin_ms);
        else
            end_key_read(&work->reads[i], KV_OK);
    }
    if (atomic_fetch_sub(&work->reads_left, 1) == 1)
        take_reads(work);
}

/* Others have changed a key: reads all again, after a random time that grows with each try. */
static void plan_anew(struct nats_transact *work)
{
    atomic_fetch_add_explicit(&work->engine->conflicts, 1, memory_order_relaxed);
    work->is_second_read = false;
    if (++work->tries > TRANSACT_TRIES) {
        end_transact(work, KV_OVERLOADED, MANY_CHANGES);
        return;
    }
    unsigned most_ms = work->tries < 6 ? 1u << work->tries : 64u;
    uint64_t wait_ms = work->tries > 1 ? random_secret() % most_ms : 0;
    read_keys(work, wait_ms > 0 ? clock_monotonic_coarse_ms() + wait_ms : 0);
}

/* In doubt: the batch was stored if one of its messages is there. */
static void resolve_batch(struct nats_transact *work)
{
    char id[NATS_MESSAGE_ID_BYTES];
    for (uint32_t i = 0; i < work->message_count; i++) {
        const struct nats_entry *entry = &work->reads[work->messages[i].key].entry;
        snprintf(id, sizeof id, "%s-%" PRIu64, nats_link_instance(work->engine->link),
                 work->first_id + i);
        if (!work->messages[i].guards && entry->sequence > 0 &&
            strcmp(entry->message_id, id) == 0) {
            end_stored(work, entry->sequence + (work->message_count - 1 - i));
            return;
        }
    }
    end_unknown(work);
}

/* Returns whether a key was changed since the entries were read that the plan has. */
static bool has_changed(const struct nats_transact *work)
{
    for (uint32_t i = 0; i < work->plan.key_count; i++) {
        const struct planned_key *key = &work->plan.keys[i];
        const struct nats_entry *entry = &work->reads[i].entry;
        if (key->matters &&
            (entry->sequence != key->entry.sequence || entry->present != key->entry.present))
            return true;
    }
    return false;
}

static enum kv_status status_of_reads(const struct nats_transact *work)
{
    enum kv_status status = KV_OK;
    for (uint32_t i = 0; i < work->plan.key_count && status != KV_LIMIT; i++)
        if (work->reads[i].status != KV_OK)
            status = work->reads[i].status;
    return status;
}

static void judge_and_go_on(struct nats_transact *work);

/* All answers are there. */
static void take_reads(struct nats_transact *work)
{
    enum kv_status status = status_of_reads(work);
    if (status != KV_OK && work->doubtful) {
        end_unknown(work);
    } else if (status != KV_OK) {
        end_transact(work, status,
                     status == KV_NO_SERVER ? NATS_NO_QUORUM
                     : status == KV_LIMIT   ? TOO_MUCH_READ
                                            : NULL);
    } else if (work->doubtful) {
        resolve_batch(work);
    } else if (work->is_second_read && !has_changed(work)) {
        end_transact(work, work->judged, NULL);
    } else {
        for (uint32_t i = 0; i < work->plan.key_count; i++) {
            nats_entry_free(&work->plan.keys[i].entry);
            work->plan.keys[i].entry = work->reads[i].entry;
            work->reads[i].entry = (struct nats_entry){0};
        }
        judge_and_go_on(work);
    }
}

/* The batch ------------------------------------------------------------------------------------ */

static bool make_batch_message(struct nats_transact *work, uint32_t index, const char *reply,
                               natsMsg **message)
{
    struct nats_engine *engine = work->engine;
    const struct batch_message *place = &work->messages[index];
    const struct planned_key *key = &work->plan.keys[place->key];
    char id[NATS_MESSAGE_ID_BYTES], batch_id[BATCH_ID_BYTES], guard[NATS_STREAM_NAME_BYTES + 16];
    snprintf(id, sizeof id, "%s-%" PRIu64, nats_link_instance(engine->link),
             work->first_id + index);
    snprintf(batch_id, sizeof batch_id, "%s-%" PRIu64 "-%" PRIu32, nats_link_instance(engine->link),
             work->first_id, work->sent);
    snprintf(guard, sizeof guard, "$KV.%s_%" PRIu32 "." GUARD_KEY, engine->bucket.name,
             work->shard);
    const struct nats_batch_place batch = {
        .id = batch_id, .sequence = index + 1, .commits = index + 1 == work->message_count};
    const char *subject = work->reads[place->key].subject;
    const struct nats_writing writing = {.subject = place->guards ? guard : subject,
                                         .value = key->rewrite.value,
                                         .expiry_ms = key->rewrite.expiry_ms,
                                         .tombstone = place->guards || !key->rewrite.present,
                                         .conditional = key->matters,
                                         .sequence = key->entry.sequence,
                                         .expected_of = place->guards ? subject : NULL,
                                         .message_id = id,
                                         .batch = &batch};
    return nats_entry_to_message(&writing, reply, message);
}

/* link_call.make: of the last message, whose answer is that of the batch. Each copy of the batch
 * has an id of its own, so that those of another one are never mixed with it; the messages have the
 * same ids in all, so that one of them is stored at most. */
static bool make_commit(struct link_call *call, const char *reply, natsMsg **message)
{
    struct nats_transact *work =
        (struct nats_transact *)((char *)call - offsetof(struct nats_transact, commit));
    work->sent++;
    return make_batch_message(work, work->message_count - 1, reply, message);
}

/* link_call.make_leading. */
static bool make_before_commit(struct link_call *call, uint32_t index, natsMsg **message)
{
    struct nats_transact *work =
        (struct nats_transact *)((char *)call - offsetof(struct nats_transact, commit));
    return make_batch_message(work, index, NULL, message);
}

static bool take_commit(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                        bool repeats);

static void send_batch(struct nats_transact *work, uint64_t begin_ms)
{
    work->commit = (struct link_call){.deadline_ms = work->deadline_ms,
                                      .begin_ms = begin_ms,
                                      .again_ms = NATS_AGAIN_MS,
                                      .make = make_commit,
                                      .leading = work->message_count - 1,
                                      .make_leading = make_before_commit,
                                      .answer = take_commit};
    if (nats_link_send(work->engine->link, &work->commit))
        return;
    if (work->doubtful)
        end_unknown(work);
    else
        end_transact(work, KV_OVERLOADED, NULL);
}

/* This copy of the batch was refused. If an earlier one has no answer, it may have been stored:
 * then its messages say so. */
static void take_batch_refusal(struct nats_transact *work, struct kv_slice failure, bool repeats)
{
    enum refusal_kind kind = nats_refusal_kind(failure);
    work->doubtful |= repeats || kind == REFUSAL_IN_PROCESS || kind == REFUSAL_TAKEN;
    switch (kind) {
    case REFUSAL_FOR_NOW:
    case REFUSAL_IN_PROCESS:
    case REFUSAL_INCOMPLETE:
        send_batch(work, clock_monotonic_coarse_ms() + 50 + random_secret() % 50);
        return;
    case REFUSAL_TAKEN:
        read_keys(work, 0);
        return;
    case REFUSAL_CHANGED:
        if (work->doubtful)
            read_keys(work, 0);
        else
            plan_anew(work);
        return;
    case REFUSAL_FOR_GOOD:
        break;
    }
    const char *sentence;
    enum kv_status status = nats_refusal_report(failure, &sentence);
    if (work->doubtful)
        read_keys(work, 0);
    else
        end_transact(work, status, sentence);
}

/* Ends a transaction whose batch no server has answered. */
static void end_without_answer(struct nats_transact *work, enum link_outcome outcome)
{
    if (outcome == LINK_SILENT || (outcome == LINK_NOT_SENT && work->doubtful))
        end_unknown(work);
    else if (outcome == LINK_NOT_SENT)
        end_transact(work, KV_NO_SERVER, work->sent > 0 ? NO_BATCH : NATS_NO_QUORUM);
    else if (work->doubtful)
        read_keys(work, 0);
    else
        end_transact(work, KV_VALUE_TOO_BIG,
                     "a value is larger than the servers take now: their max_payload is less than "
                     "it was when serverk started");
}

/* The answer to the last message: link_call.answer. */
static bool take_commit(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                        bool repeats)
{
    struct nats_transact *work =
        (struct nats_transact *)((char *)call - offsetof(struct nats_transact, commit));
    uint64_t sequence = 0, count = 0;
    if (outcome != LINK_ANSWERED) {
        end_without_answer(work, outcome);
        return false;
    }
    struct kv_slice answer =
        kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
    struct kv_slice failure = nats_json_member(answer, "error");
    if (failure.size > 0) {
        take_batch_refusal(work, failure, repeats);
    } else if (nats_json_number(answer, "seq", &sequence) && sequence >= work->message_count &&
               nats_json_number(answer, "count", &count) && count == work->message_count) {
        end_stored(work, sequence);
    } else {
        log_error("nats: a server does not know batches, and may have stored a part of a "
                  "transaction: all servers must be nats-server 2.12.2 or newer");
        end_transact(work, KV_OUTCOME_UNKNOWN, "the server's answer makes no sense");
    }
    return false;
}

static void add_batch_message(struct nats_transact *work, uint32_t key, bool guards)
{
    work->messages[work->message_count++] =
        (struct batch_message){.key = (uint8_t)key, .guards = guards};
}

/* Puts together what the plan writes. Returns the number of messages that only guard. */
static uint32_t collect_batch(struct nats_transact *work)
{
    const struct nats_plan *plan = &work->plan;
    work->message_count = 0;
    for (uint32_t i = 0; i < plan->key_count; i++)
        if (plan->keys[i].matters && !plan->keys[i].is_written)
            add_batch_message(work, i, true);
    uint32_t guards = work->message_count;
    for (uint32_t i = 0; i < plan->key_count; i++)
        if (plan->keys[i].is_written)
            add_batch_message(work, i, false);
    work->first_id = atomic_fetch_add_explicit(&work->engine->message_number, work->message_count,
                                               memory_order_relaxed);
    work->sent = 0;
    return guards;
}

/* Planning ------------------------------------------------------------------------------------- */

static uint32_t count_read_keys(const struct nats_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->key_count; i++)
        count += plan->keys[i].matters;
    return count;
}

static void judge_and_go_on(struct nats_transact *work)
{
    enum kv_status status = work->judged = nats_plan_judge(&work->plan);
    bool is_known = status == KV_NO_MEMORY || status == KV_BUFFER_TOO_SMALL;
    if (status == KV_OK && work->plan.writes > 0) {
        if (collect_batch(work) > 0 && !work->engine->bucket.guards_others)
            end_transact(work, KV_UNSUPPORTED, GUARDS_MIXED_UP);
        else
            send_batch(work, 0);
    } else if (is_known || count_read_keys(&work->plan) < 2) {
        end_transact(work, status, NULL);
    } else if (!work->is_second_read) {
        work->is_second_read = true;
        read_keys(work, 0);
    } else if (++work->tries > TRANSACT_TRIES) {
        end_transact(work, KV_OVERLOADED, MANY_CHANGES);
    } else {
        read_keys(work, 0);
    }
}

/* Beginning ------------------------------------------------------------------------------------ */

/* shard_turn.begin. */
static void begin_transact(struct shard_turn *turn)
{
    struct nats_transact *work = (struct nats_transact *)turn;
    if (work->deadline_ms <= clock_monotonic_coarse_ms())
        end_transact(work, work->operation->bounded ? KV_NO_SERVER : KV_DEADLINE,
                     work->operation->bounded ? NATS_NO_TURN : NULL);
    else
        read_keys(work, 0);
}

/* Finds the shard of all keys, and writes their subjects. */
static enum kv_status place_keys(struct nats_transact *work, const char **sentence)
{
    const struct nats_bucket *bucket = &work->engine->bucket;
    struct nats_plan *plan = &work->plan;
    char encoded[NATSKV_MAX_KEY_BYTES + 1], text[NATS_SUBJECT_BYTES];
    size_t used = 0;
    for (uint32_t i = 0; i < plan->key_count; i++) {
        struct kv_slice key = plan->keys[i].key;
        uint32_t shard = nats_shard_of(bucket, key);
        if (i == 0)
            work->shard = shard;
        bool is_encoded = nats_subject_encode(key, encoded, sizeof encoded);
        if (!is_encoded || shard != work->shard) {
            nats_plan_blame_key(plan, i);
            *sentence = !is_encoded      ? NATS_LONG_KEY
                        : bucket->by_tag ? SEVERAL_SHARDS
                                         : SEVERAL_SHARDS_UNTAGGED;
            return is_encoded ? KV_APART : KV_BAD_KEY;
        }
        size_t size = (size_t)snprintf(text, sizeof text, "$KV.%s_%" PRIu32 ".%s", bucket->name,
                                       shard, encoded) +
                      1;
        char *subjects = realloc(work->subjects, used + size);
        if (!subjects)
            return KV_NO_MEMORY;
        work->subjects = subjects;
        memcpy(subjects + used, text, size);
        used += size;
        work->hashes[i] = XXH3_64bits(key.data, key.size);
    }
    return KV_OK;
}

/* The subjects stay where they are from now on. */
static void point_at_subjects(struct nats_transact *work)
{
    char *at = work->subjects;
    for (uint32_t i = 0; i < work->plan.key_count; i++, at += strlen(at) + 1) {
        work->reads[i].work = work;
        work->reads[i].subject = at;
    }
}

static bool list_writes(const struct kvstore_step *steps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].kind != KVSTORE_STEP_GET && steps[i].kind != KVSTORE_STEP_EXISTS)
            return true;
    return false;
}

static bool transaction_writes(const struct kvstore_transaction *asked)
{
    return list_writes(asked->then, asked->then_count) ||
           list_writes(asked->otherwise, asked->otherwise_count);
}

void nats_transact_begin(struct nats_engine *engine, struct engine_operation *operation)
{
    const char *sentence = NULL;
    enum kv_status status = KV_NO_MEMORY;
    nats_bound_deadline(operation);
    operation->transacted = (struct kvstore_transacted){.at = UINT32_MAX};
    if (operation->synced && !engine->synced && transaction_writes(operation->transaction)) {
        nats_finish(operation, KV_UNSUPPORTED, NATS_NOT_SYNCED);
        return;
    }
    struct nats_transact *work = calloc(1, sizeof *work);
    if (work) {
        work->engine = engine;
        work->operation = operation;
        work->plan.after_reading = operation->after_reading;
        status = nats_plan_begin(&work->plan, operation->transaction, operation->results,
                                 &operation->transacted, engine->max_value_bytes);
    }
    if (status == KV_OK)
        status = place_keys(work, &sentence);
    if (status != KV_OK || work->plan.key_count == 0) {
        if (status == KV_OK)
            operation->transacted.held = true;
        if (work)
            free_transact(work);
        nats_finish(operation, status, sentence);
        return;
    }
    point_at_subjects(work);
    uint64_t last_ms = clock_monotonic_coarse_ms() + NATS_PATIENCE_MS;
    work->deadline_ms = operation->deadline_ms < last_ms ? operation->deadline_ms : last_ms;
    work->turn = (struct shard_turn){
        .keys = work->hashes, .key_count = work->plan.key_count, .begin = begin_transact};
    nats_turns_take(&engine->turns[work->shard], &work->turn);
}
