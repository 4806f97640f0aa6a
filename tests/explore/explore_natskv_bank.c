/* Transactions of natskv on a cluster whose answers come late or not at all: accounts between which
 * money is moved, beside a log of what was moved, and a price that the transfers read, and do not
 * write, which others set all the time. In the stream, and in whatever is read together, the
 * accounts have what the log says; each transfer is there as its caller was told, and at the price
 * of its moment. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_engine.h"
#include "bridges/cluster/natskv/natskv.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_nats.h"

#define TELLER        0u
#define BANK          1u
#define TELLERS       3u
#define VISITS_EACH   3u
#define ACCOUNTS      2u
#define PRICE         2u
#define JOURNAL       3u
#define BANK_KEYS     4u
#define VISITS_MAX    (TELLERS * VISITS_EACH * 2)
#define BALANCE       100
#define FOUND_BYTES   256u
#define VISIT_MOST_MS (2 * NATS_PATIENCE_MS + 5000u)
#define JOURNAL_NOTE  "<%u:%d:%s>"

enum visit_kind { LOOKS, MOVES, SETS_PRICE };

/* What a caller asks for. */
struct visit {
    struct engine_operation operation; /* the first member */
    enum visit_kind kind;
    unsigned number;
    int amount;
    char price[16], note[48], found[BANK_KEYS][FOUND_BYTES];
    struct kvstore_guard guards[2];
    struct kvstore_step steps[BANK_KEYS];
    struct kvstore_step_result results[BANK_KEYS];
    struct kvstore_transaction transaction;
    unsigned done;
};

static struct {
    struct store_engine *engine;
    struct visit visits[VISITS_MAX];
    unsigned count;
    bool may_fail;
} bank;

static const char *const bank_names[BANK_KEYS] = {"a", "b", "price", "log"};

static struct kv_slice bank_key(unsigned key)
{
    return kv_slice_from_string(bank_names[key]);
}

/* What the accounts have by a log. */
static int moved_by(const char *log)
{
    int moved = 0;
    for (const char *at = log; *at; at = strchr(at, '>') + 1) {
        unsigned number;
        int amount;
        EXPLORE_CHECK(sscanf(at, "<%u:%d:", &number, &amount) == 2 && strchr(at, '>'),
                      "the log is torn: %s", log);
        moved += amount;
    }
    return moved;
}

static void judge_balances(const char *first, const char *second, const char *log)
{
    int moved = moved_by(log);
    EXPLORE_CHECK(atoi(first) == BALANCE - moved && atoi(second) == BALANCE + moved,
                  "the accounts have %s and %s, and the log is %s", first, second, log);
}

/* Visits --------------------------------------------------------------------------------------- */

static void *place_balance(void *context, uint32_t step, size_t bytes)
{
    struct visit *visit = context;
    EXPLORE_CHECK(bytes < FOUND_BYTES, "a value is too large");
    memset(visit->found[step], 0, FOUND_BYTES);
    return visit->found[step];
}

static bool is_surely_nothing(enum kv_status status)
{
    return status == KV_NO_SERVER || status == KV_DEADLINE || status == KV_OVERLOADED ||
           status == KV_NO_SPACE;
}

static void end_visit(struct engine_operation *operation)
{
    bool was_quiet = explore_quietly(true);
    struct visit *visit = (struct visit *)operation;
    enum kv_status status = operation->status;
    EXPLORE_CHECK(visit->done++ == 0, "an operation is done twice");
    EXPLORE_CHECK(status == KV_OK || is_surely_nothing(status) ||
                      (status == KV_OUTCOME_UNKNOWN && visit->kind != LOOKS),
                  "a visit ends with status %d", status);
    EXPLORE_CHECK(bank.may_fail || status == KV_OK || !explore_keeps_time(),
                  "a visit ends with status %d of a sound cluster", status);
    if (status == KV_OK && visit->kind == LOOKS)
        judge_balances(visit->found[0], visit->found[1], visit->found[JOURNAL]);
    explore_quietly(was_quiet);
}

static void look(struct visit *visit)
{
    for (unsigned i = 0; i < BANK_KEYS; i++)
        visit->steps[i] = (struct kvstore_step){.kind = KVSTORE_STEP_GET, .key = bank_key(i)};
    visit->transaction.then_count = BANK_KEYS;
}

/* A transfer at the price, of which it guesses that it is what was set last. */
static void move(struct visit *visit)
{
    unsigned taker = explore_random(ACCOUNTS);
    visit->amount = (int)(1 + explore_random(9)) * (taker == 1 ? 1 : -1);
    char note[sizeof visit->note];
    snprintf(note, sizeof note, JOURNAL_NOTE, visit->number, visit->amount, visit->price);
    memcpy(visit->note, note, sizeof note);
    visit->guards[0] = (struct kvstore_guard){.kind = KVSTORE_GUARD_VALUE,
                                              .key = bank_key(PRICE),
                                              .value = kv_slice_from_string(visit->price)};
    visit->transaction.guard_count = 1;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        visit->steps[i] = (struct kvstore_step){.kind = KVSTORE_STEP_ADD,
                                                .key = bank_key(i),
                                                .delta = i == 1 ? visit->amount : -visit->amount};
    visit->steps[ACCOUNTS] = (struct kvstore_step){.kind = KVSTORE_STEP_APPEND,
                                                   .key = bank_key(JOURNAL),
                                                   .value = kv_slice_from_string(visit->note)};
    visit->transaction.then_count = ACCOUNTS + 1;
}

static void draw_visit(struct visit *visit)
{
    static const enum visit_kind kinds[] = {LOOKS, MOVES, MOVES, SETS_PRICE};
    visit->number = bank.count;
    visit->kind = kinds[explore_random(4)];
    snprintf(visit->price, sizeof visit->price, "%u", explore_random(2));
    visit->transaction = (struct kvstore_transaction){
        .guards = visit->guards, .then = visit->steps, .place = place_balance, .context = visit};
    visit->operation = (struct engine_operation){.opcode = ENGINE_TRANSACT,
                                                 .transaction = &visit->transaction,
                                                 .results = visit->results,
                                                 .done = end_visit};
    if (visit->kind == LOOKS) {
        look(visit);
    } else if (visit->kind == MOVES) {
        move(visit);
    } else {
        visit->operation.opcode = ENGINE_PUT;
        visit->operation.key = bank_key(PRICE);
        visit->operation.value = kv_slice_from_string(visit->price);
    }
    if (bank.may_fail && explore_random(3) == 0) /* which tries that meet each other may miss */
        visit->operation.deadline_ms = clock_monotonic_coarse_ms() + 200 + explore_random(4000);
}

static bool is_visit_done(const void *what)
{
    return ((const struct visit *)what)->done > 0;
}

static void submit_visit(struct visit *visit)
{
    explore_quietly(false);
    bank.engine->calls->submit(bank.engine, &visit->operation);
    explore_quietly(true);
}

static void await_visit(struct visit *visit, uint64_t since_ns)
{
    explore_quietly(false);
    explore_wait_until(is_visit_done, visit);
    explore_quietly(true);
    uint64_t took_ms = (explore_clock_ns() - since_ns) / 1000000;
    EXPLORE_CHECK(took_ms < VISIT_MOST_MS, "a visit takes %" PRIu64 " ms", took_ms);
}

static void visit_often(void *unused)
{
    (void)unused;
    explore_quietly(true);
    for (unsigned i = 0; i < VISITS_EACH; i++) {
        struct visit *together[2];
        unsigned count = 1 + explore_random(2);
        uint64_t since_ns = explore_clock_ns();
        for (unsigned j = 0; j < count; j++) {
            together[j] = &bank.visits[bank.count++];
            draw_visit(together[j]);
            submit_visit(together[j]);
        }
        for (unsigned j = 0; j < count; j++)
            await_visit(together[j], since_ns);
    }
    explore_quietly(false);
}

/* The bank before anybody visits it: told to the stream itself. */
static void open_bank(void)
{
    static const char *const values[BANK_KEYS] = {"100", "100", "0", ""};
    for (unsigned i = 0; i < BANK_KEYS; i++) {
        struct stored_message *stored =
            &explored_cluster.messages[++explored_cluster.last_sequence];
        snprintf(stored->subject, sizeof stored->subject, "$KV.x_0.%s", bank_names[i]);
        snprintf(stored->value, sizeof stored->value, "%s", values[i]);
        snprintf(stored->id, sizeof stored->id, "opened-%u", i);
    }
}

/* What the stream has ------------------------------------------------------------------------- */

/* A transfer ends with the message of the log: then the accounts have what the log says, and the
 * price is that of the transfer. */
static const char *judge_stream(void)
{
    const char *values[BANK_KEYS] = {"100", "100", "0", ""};
    for (uint64_t i = BANK_KEYS + 1; i <= explored_cluster.last_sequence; i++) {
        const struct stored_message *stored = &explored_cluster.messages[i];
        const char *name = strrchr(stored->subject, '.') + 1;
        for (unsigned key = 0; key < BANK_KEYS; key++)
            if (strcmp(name, bank_names[key]) == 0) {
                EXPLORE_CHECK(
                    key != JOURNAL || strncmp(stored->value, values[key], strlen(values[key])) == 0,
                    "a part of the log is lost: %s behind %s", stored->value, values[key]);
                values[key] = stored->value;
            }
        if (strcmp(name, bank_names[JOURNAL]) != 0)
            continue;
        judge_balances(values[0], values[1], values[JOURNAL]);
        const char *price = strrchr(stored->value, ':') + 1;
        EXPLORE_CHECK(strncmp(price, values[PRICE], strlen(values[PRICE])) == 0,
                      "a transfer is there at price %s, when that was %s", price, values[PRICE]);
    }
    judge_balances(values[0], values[1], values[JOURNAL]);
    return values[JOURNAL];
}

static unsigned count_notes(const char *log, const char *note)
{
    unsigned count = 0;
    for (const char *at = strstr(log, note); at; at = strstr(at + 1, note))
        count++;
    return count;
}

/* The versions that a transfer was told are those of its messages. */
static void judge_versions(const struct visit *visit)
{
    for (unsigned i = 0; i <= ACCOUNTS; i++) {
        uint64_t sequence = visit->results[i].written.version / NATSKV_FOLD;
        EXPLORE_CHECK(sequence > 0 && sequence <= explored_cluster.last_sequence,
                      "a version that the stream has not");
        const char *name = strrchr(explored_cluster.messages[sequence].subject, '.') + 1;
        EXPLORE_CHECK(kv_slice_equal(kv_slice_from_string(name), visit->steps[i].key),
                      "a write of %s was told the version of one of %s",
                      (const char *)visit->steps[i].key.data, name);
    }
}

static void judge_visit(const struct visit *visit, const char *log)
{
    enum kv_status status = visit->operation.status;
    EXPLORE_CHECK(visit->done == 1, "a visit is not done");
    if (visit->kind != MOVES)
        return;
    bool held = status == KV_OK && visit->operation.transacted.held;
    unsigned times = count_notes(log, visit->note);
    EXPLORE_CHECK(times <= 1, "transfer %u was executed %u times", visit->number, times);
    EXPLORE_CHECK(!held || times == 1, "transfer %u was acknowledged, and is not there",
                  visit->number);
    EXPLORE_CHECK(times == 0 || held || status == KV_OUTCOME_UNKNOWN,
                  "transfer %u was executed, and its status %d says that it was not", visit->number,
                  status);
    if (held)
        judge_versions(visit);
}

static void run_bank(bool may_fail)
{
    const struct natskv_options options = {
        .urls = "nats://explored", .bucket = "x", .check_only = true};
    struct kv_error error = {.text = ""};
    explore_quietly(true);
    explore_forget_statics();
    memset(&bank, 0, sizeof bank);
    bank.may_fail = may_fail;
    explored_nats_begin(BANK, may_fail);
    open_bank();
    EXPLORE_CHECK(natskv_open(&options, &bank.engine, &error) == KV_OK, "%s", error.text);
    explore_quietly(false);
    for (unsigned i = 0; i < TELLERS; i++)
        explore_thread(TELLER, visit_often, NULL);
    explore_wait_for_threads();
    explored_nats_end();
    engine_close(bank.engine, &error);
    explore_wait_for_all();
    explore_quietly(true);
    EXPLORE_CHECK(explored_nats_left() == 0, "%u objects of the library are left",
                  explored_nats_left());
    const char *log = judge_stream();
    for (unsigned i = 0; i < bank.count; i++)
        judge_visit(&bank.visits[i], log);
}

static void run_failing_bank(void)
{
    run_bank(true);
}

static void run_sound_bank(void)
{
    run_bank(false);
}

EXPLORE_HARNESS(explore_natskv_bank) = {
    .name = "natskv-bank",
    .invariant = "a transaction on a cluster that loses requests and answers is done as it says",
    .run = run_failing_bank,
    .most_still_ms = 100,
};

EXPLORE_HARNESS(explore_natskv_bank_sound) = {
    .name = "natskv-bank-sound",
    .invariant = "the same on a cluster that answers all",
    .run = run_sound_bank,
    .most_still_ms = 100,
};
