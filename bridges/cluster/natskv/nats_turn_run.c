#include "bridges/cluster/natskv/nats_turn_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_json.h"
#include "bridges/cluster/natskv/nats_look.h"

/* Errors of JetStream. */
#define WRONG_LAST_SEQUENCE          10071u
#define WRONG_LAST_SEQUENCE_CONSTANT 10164u
#define DUPLICATE_IN_PROCESS         10158u
#define MESSAGE_TOO_LARGE            10054u
#define STORE_FAILED                 10077u
#define INSUFFICIENT_RESOURCES       10023u
#define ACCOUNT_RESOURCES            10002u
#define NO_MEMORY_RESOURCES          10028u
#define STORAGE_RESOURCES            10047u

/* A write that others come before so often is given up. */
#define MAX_TRIES 64u

/* Ends ----------------------------------------------------------------------------------------- */

/* All operations of the run are done, with the outcomes they have. */
static void end_run(struct key_turn *turn)
{
    struct engine_operation *operation = turn->run;
    turn->run = NULL;
    nats_rewrite_free(&turn->rewrite);
    while (operation) {
        struct engine_operation *next = operation->next;
        operation->next = NULL;
        operation->done(operation);
        operation = next;
    }
    nats_entry_free(&turn->entry);
    turn->over(turn);
}

static void end_all(struct key_turn *turn, enum kv_status status, const char *sentence)
{
    for (struct engine_operation *operation = turn->run; operation; operation = operation->next) {
        operation->status = status;
        operation->sentence = sentence;
    }
    end_run(turn);
}

/* The write has failed, or perhaps not; what does not rest on it stands. */
static void end_unwritten(struct key_turn *turn, enum kv_status status, const char *sentence)
{
    nats_rewrite_fail(turn->run, status, sentence);
    end_run(turn);
}

/* Reading -------------------------------------------------------------------------------------- */

/* Whether any replica may answer. What a write rests on the leader tells: a replica that is behind
 * would refuse a version that was read a moment ago. The only replica is the leader, and answers
 * faster so. */
static bool is_direct(const struct key_turn *turn)
{
    return (turn->reads && turn->engine->read_any) ||
           nats_look_replicas(turn->engine, turn->shard) == 1;
}

static bool make_read(struct link_call *call, const char *reply, natsMsg **message)
{
    struct key_turn *turn = (struct key_turn *)((char *)call - offsetof(struct key_turn, call));
    struct nats_engine *engine = turn->engine;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 40];
    char json[NATS_SUBJECT_BYTES + 32];
    nats_bucket_stream(&engine->bucket, turn->shard, stream);
    turn->direct = is_direct(turn);
    snprintf(subject, sizeof subject,
             turn->direct ? "$JS.API.DIRECT.GET.%s" : "$JS.API.STREAM.MSG.GET.%s", stream);
    int size = snprintf(json, sizeof json, "{\"last_by_subj\":\"%s\"}", turn->subject);
    return natsMsg_Create(message, subject, reply, json, size) == NATS_OK;
}

/* Outcomes of reads. */
static void tell_entry(struct key_turn *turn)
{
    const struct nats_entry *entry = &turn->entry;
    for (struct engine_operation *operation = turn->run; operation; operation = operation->next) {
        operation->status = entry->present ? KV_OK : KV_NOT_FOUND;
        if (!entry->present)
            continue;
        operation->entry = (struct kvstore_entry){.version = entry->sequence * NATSKV_FOLD,
                                                  .expiry_ms = entry->expiry_ms,
                                                  .value_bytes = (uint32_t)entry->value.size};
        operation->found_value = entry->value;
    }
    end_run(turn);
}

static void write_on(struct key_turn *turn);
static void read_then(struct key_turn *turn, uint64_t begin_ms);

/* After a write that others came before, or that may have been applied: the message there is says
 * whether it was ours. True: the run has ended. */
static bool settle_doubt(struct key_turn *turn)
{
    if (!turn->doubtful)
        return false;
    turn->doubtful = false;
    if (turn->entry.sequence > 0 && strcmp(turn->entry.message_id, turn->message_id) == 0) {
        nats_rewrite_tell_versions(&turn->rewrite, turn->run, turn->entry.sequence);
        end_run(turn);
    } else {
        end_unwritten(turn, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    }
    return true;
}

/* link_call.answer of a read. */
static bool take_entry(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                       bool repeats)
{
    struct key_turn *turn = (struct key_turn *)((char *)call - offsetof(struct key_turn, call));
    (void)repeats;
    enum kv_status status = KV_NO_SERVER;
    nats_entry_free(&turn->entry);
    if (outcome == LINK_ANSWERED && turn->direct)
        status = nats_entry_from_message(message, !turn->reads, &turn->entry);
    else if (outcome == LINK_ANSWERED)
        status = nats_entry_from_json(
            kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)),
            &turn->entry);
    if (status == KV_NO_SERVER && outcome == LINK_ANSWERED) { /* "come back later" */
        read_then(turn, clock_monotonic_coarse_ms() + 100);
        return false;
    }
    if (status != KV_OK && turn->doubtful)
        end_unwritten(turn, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    else if (status != KV_OK)
        end_all(turn, status, status == KV_NO_SERVER ? NATS_NO_QUORUM : NULL);
    else if (turn->reads)
        tell_entry(turn);
    else if (!settle_doubt(turn))
        write_on(turn);
    return false;
}

static void read_then(struct key_turn *turn, uint64_t begin_ms)
{
    turn->call = (struct link_call){.deadline_ms = turn->deadline_ms,
                                    .begin_ms = begin_ms,
                                    .again_ms = NATS_AGAIN_MS,
                                    .make = make_read,
                                    .answer = take_entry};
    if (nats_link_send(turn->engine->link, &turn->call))
        return;
    if (turn->doubtful)
        end_unwritten(turn, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    else
        end_all(turn, KV_OVERLOADED, NULL);
}

/* Writing -------------------------------------------------------------------------------------- */

static bool make_write(struct link_call *call, const char *reply, natsMsg **message)
{
    struct key_turn *turn = (struct key_turn *)((char *)call - offsetof(struct key_turn, call));
    const struct nats_writing writing = {.subject = turn->subject,
                                         .value = turn->rewrite.value,
                                         .expiry_ms = turn->rewrite.expiry_ms,
                                         .tombstone = !turn->rewrite.present,
                                         .conditional = turn->conditional,
                                         .sequence = turn->expected,
                                         .message_id = turn->message_id};
    return nats_entry_to_message(&writing, reply, message);
}

/* Others were faster: after a while that grows, at random, the entry is read again. If the write
 * is doubtful, what is read settles it (settle_doubt), after however many tries. */
static void try_again(struct key_turn *turn)
{
    atomic_fetch_add_explicit(&turn->engine->conflicts, 1, memory_order_relaxed);
    if (++turn->tries > MAX_TRIES && !turn->doubtful) {
        end_unwritten(turn, KV_OVERLOADED, "others write this key all the time: try again later");
        return;
    }
    unsigned most_ms = turn->tries < 6 ? 1u << turn->tries : 64u;
    uint64_t wait_ms = turn->tries > 2 ? random_secret() % most_ms : 0;
    read_then(turn, wait_ms > 0 ? clock_monotonic_coarse_ms() + wait_ms : 0);
}

static bool describes(struct kv_slice failure, const char *words)
{
    struct kv_slice description = {0};
    return nats_json_string(failure, "description", &description) &&
           kv_slice_equal(description, kv_slice_from_string(words));
}

/* Whether a refused write may be taken a moment later. Room does not come by waiting, though the
 * servers give such errors 503, too; a store that is closed is that of a server that ends. */
static bool is_for_now(struct kv_slice failure, uint64_t code)
{
    uint64_t kind = 0;
    nats_json_number(failure, "code", &kind);
    if (code == STORE_FAILED)
        return describes(failure, "store is closed");
    return code == DUPLICATE_IN_PROCESS || (kind == 503 && code != INSUFFICIENT_RESOURCES);
}

/* Why a write is refused for good. Of each reason the log tells at its own pace: a full bucket
 * refuses every write, and a mirror tries all of a page again and again. */
struct refusal {
    _Atomic uint64_t code; /* 0: of none yet */
    enum kv_status status;
    struct log_pace pace;
};

/* For a code that has no row yet; as the last row, for all codes when no other is left. */
#define OTHER_REFUSAL             \
    {                             \
        0, KV_IO, LOG_PACE(10000) \
    }

static struct refusal refusals[] = {{MESSAGE_TOO_LARGE, KV_VALUE_TOO_BIG, LOG_PACE(10000)},
                                    {STORE_FAILED, KV_NO_SPACE, LOG_PACE(10000)},
                                    {INSUFFICIENT_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    {ACCOUNT_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    {NO_MEMORY_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    {STORAGE_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL};

/* The row of the code, which from now on is its own. */
static struct refusal *row_of(uint64_t code)
{
    struct refusal *row = refusals;
    struct refusal *last = refusals + sizeof refusals / sizeof refusals[0] - 1;
    for (; row < last && code != 0; row++) {
        uint64_t taken_by = 0;
        if (atomic_compare_exchange_strong(&row->code, &taken_by, code) || taken_by == code)
            return row;
    }
    return last;
}

static struct refusal *refusal_of(struct kv_slice failure, uint64_t code)
{
    bool too_large = code == STORE_FAILED && describes(failure, "message too large");
    return row_of(too_large ? MESSAGE_TOO_LARGE : code);
}

static void tell_refusal(struct refusal *refusal, struct kv_slice failure, uint64_t code)
{
    char unsaid[LOG_PACE_TEXT_BYTES];
    struct kv_slice words = {0};
    nats_json_string(failure, "description", &words);
    if (log_pace_allows(&refusal->pace, unsaid))
        log_warn("nats: a write was refused: %.*s (JetStream error %" PRIu64 ")%s", (int)words.size,
                 (const char *)words.data, code, unsaid);
}

static void send_write(struct key_turn *turn, uint64_t begin_ms);

/* The server refused this copy of the write. An earlier one that nobody has answered may have been
 * applied all the same: then the entry says so. */
static void take_refusal(struct key_turn *turn, struct kv_slice failure, bool repeats)
{
    uint64_t code = 0;
    nats_json_number(failure, "err_code", &code);
    turn->doubtful |= repeats;
    if (is_for_now(failure, code)) {
        turn->doubtful |= code == DUPLICATE_IN_PROCESS;
        send_write(turn, clock_monotonic_coarse_ms() + 50);
    } else if (code == WRONG_LAST_SEQUENCE || code == WRONG_LAST_SEQUENCE_CONSTANT) {
        try_again(turn);
    } else {
        struct refusal *refusal = refusal_of(failure, code);
        tell_refusal(refusal, failure, code);
        if (turn->doubtful) {
            read_then(turn, 0);
            return;
        }
        end_unwritten(turn, refusal->status,
                      refusal->status == KV_NO_SPACE
                          ? "the cluster has no room for the write: the log of serverk says why"
                          : "the servers refused the write: the log of serverk says why");
    }
}

/* No server has answered the write. */
static void end_unanswered(struct key_turn *turn, enum link_outcome outcome)
{
    if (outcome == LINK_SILENT || (outcome == LINK_NOT_SENT && turn->doubtful))
        end_unwritten(turn, KV_OUTCOME_UNKNOWN, NATS_SILENCE);
    else if (outcome == LINK_NOT_SENT)
        end_unwritten(turn, KV_NO_SERVER, NATS_NO_QUORUM);
    else if (turn->doubtful)
        read_then(turn, 0);
    else
        end_unwritten(turn, KV_VALUE_TOO_BIG,
                      "the value is larger than the servers take now: their max_payload is less "
                      "than it was when serverk started");
}

/* link_call.answer of a write. */
static bool take_acknowledgement(struct link_call *call, enum link_outcome outcome,
                                 natsMsg *message, bool repeats)
{
    struct key_turn *turn = (struct key_turn *)((char *)call - offsetof(struct key_turn, call));
    uint64_t sequence = 0;
    if (outcome != LINK_ANSWERED) {
        end_unanswered(turn, outcome);
        return false;
    }
    struct kv_slice answer =
        kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
    struct kv_slice failure = nats_json_member(answer, "error");
    if (failure.size > 0) {
        take_refusal(turn, failure, repeats);
    } else if (nats_json_number(answer, "seq", &sequence) && sequence > 0) {
        nats_rewrite_tell_versions(&turn->rewrite, turn->run, sequence);
        end_run(turn);
    } else {
        end_unwritten(turn, KV_OUTCOME_UNKNOWN, "the server's answer makes no sense");
    }
    return false;
}

static void send_write(struct key_turn *turn, uint64_t begin_ms)
{
    turn->call = (struct link_call){.deadline_ms = turn->deadline_ms,
                                    .begin_ms = begin_ms,
                                    .again_ms = NATS_AGAIN_MS,
                                    .make = make_write,
                                    .answer = take_acknowledgement};
    if (nats_link_send(turn->engine->link, &turn->call))
        return;
    end_unwritten(turn, turn->doubtful ? KV_OUTCOME_UNKNOWN : KV_OVERLOADED, NULL);
}

static void name_message(struct key_turn *turn)
{
    struct nats_engine *engine = turn->engine;
    uint64_t number = atomic_fetch_add_explicit(&engine->message_number, 1, memory_order_relaxed);
    snprintf(turn->message_id, sizeof turn->message_id, "%s-%" PRIu64,
             nats_link_instance(engine->link), number);
}

/* Executes the run on the entry as it was read (turn->blind: it was not), and writes the result. */
static void write_on(struct key_turn *turn)
{
    struct nats_engine *engine = turn->engine;
    nats_rewrite_run(&turn->rewrite, turn->blind ? NULL : &turn->entry, turn->run,
                     engine->max_value_bytes);
    if (turn->rewrite.changes == 0) {
        end_run(turn);
        return;
    }
    if (!turn->blind) {
        turn->conditional = true;
        turn->expected = turn->entry.sequence;
    }
    turn->blind = false;
    if (turn->tries == 0)
        atomic_fetch_add_explicit(&engine->folded, turn->rewrite.changes - 1, memory_order_relaxed);
    name_message(turn);
    send_write(turn, 0);
}

/* Whether the outcome does not depend on what is there: all are puts without a condition. */
static bool is_unconditional(const struct key_turn *turn)
{
    for (const struct engine_operation *operation = turn->run; operation;
         operation = operation->next)
        if (operation->opcode != ENGINE_PUT || operation->put.condition != KVSTORE_ALWAYS ||
            operation->put.keep_expiry)
            return false;
    return true;
}

/* Whether it is one put of what must not be there: a condition that the server can look at. That an
 * entry has a version it cannot: to the server a tombstone, and what has expired, is a message with
 * a sequence as any other. */
static bool is_if_absent(const struct key_turn *turn)
{
    const struct engine_operation *operation = turn->run;
    return turn->run_count == 1 && operation->opcode == ENGINE_PUT &&
           operation->put.condition == KVSTORE_IF_ABSENT && !operation->put.keep_expiry;
}

void nats_turn_begin(struct key_turn *turn)
{
    turn->doubtful = turn->conditional = turn->blind = false;
    if (turn->reads) {
        read_then(turn, 0);
        return;
    }
    if (is_unconditional(turn)) {
        turn->blind = true;
    } else if (is_if_absent(turn)) {
        turn->expected = 0;
        turn->blind = turn->conditional = true;
    }
    if (turn->blind)
        write_on(turn);
    else
        read_then(turn, 0);
}
