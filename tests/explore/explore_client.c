/* Clients of a server that answers late, in part or not at all, and dies: the window of a pipeline,
 * and the combiner that several threads share. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_server.h"
#include "tests/history/history.h"

#define FIRST_SERVER    1u
#define SECOND_SERVER   2u
#define CLIENT          0u
#define TIMEOUT_MS      300u
#define LATE_MS         400u
#define THREADS         3u
#define OPERATIONS_EACH 5u
#define WINDOW          3u
#define BATCH           2u
#define OPERATIONS      12u

static struct {
    struct clientk *client;
    struct history_operation operations[SERVER_KEYS][SERVER_MAX_WRITES];
    unsigned counts[SERVER_KEYS];
    int64_t last_number; /* of a write */
    bool repeats_writes; /* the option */
} clients;

/* One operation that a client waits for. */
struct awaited {
    unsigned key;
    struct history_operation *noted;
    enum kv_status status;
    unsigned times; /* that it was completed */
};

static void begin_operation(struct awaited *awaited, unsigned key, bool is_write)
{
    explore_quietly(true);
    struct history_operation *noted = &clients.operations[key][clients.counts[key]++];
    *noted = (struct history_operation){.kind = is_write ? HISTORY_PUT : HISTORY_GET,
                                        .input = is_write ? ++clients.last_number : 0,
                                        .start_ns = explore_clock_ns(),
                                        .end_ns = HISTORY_PENDING};
    *awaited = (struct awaited){.key = key, .noted = noted};
    explore_quietly(false);
}

/* The operation has ended so: what that says of it is checked when the server has ended, too. */
static void complete(struct awaited *awaited, enum kv_status status,
                     const struct clientk_value *value)
{
    struct history_operation *noted = awaited->noted;
    EXPLORE_CHECK(awaited->times++ == 0, "an operation is completed twice");
    awaited->status = status;
    switch (status) {
    case KV_OK:
    case KV_NOT_FOUND:
        noted->succeeded = true;
        noted->end_ns = explore_clock_ns();
        noted->output = HISTORY_ABSENT;
        if (noted->kind == HISTORY_GET && status == KV_OK) {
            EXPLORE_CHECK(value->data != NULL, "a get succeeds without a value");
            noted->output = strtoll(value->data, NULL, 10);
        }
        return;
    case KV_TIMEOUT:
    case KV_OUTCOME_UNKNOWN:
    case KV_DEADLINE:
    case KV_NO_SERVER:
    case KV_OVERLOADED:
        return;
    default:
        explore_fail("an operation gives status %d", status);
    }
}

static void judge_write(const struct awaited *awaited)
{
    int64_t number = awaited->noted->input;
    unsigned executed = explored_data.executed[number];
    enum kv_status status = awaited->status;
    EXPLORE_CHECK(executed <= 1 || clients.repeats_writes,
                  "write %" PRId64 " was executed %u times", number, executed);
    EXPLORE_CHECK(status != KV_OK || executed > 0,
                  "write %" PRId64 " was answered and not executed", number);
    bool is_denied = status == KV_DEADLINE || status == KV_NO_SERVER || status == KV_OVERLOADED;
    EXPLORE_CHECK(!is_denied || executed == 0,
                  "write %" PRId64 " was executed, and its status %d says that it was not", number,
                  status);
}

static void judge(const struct awaited *awaited, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        EXPLORE_CHECK(awaited[i].times == 1, "an operation was not completed");
        if (awaited[i].noted->kind == HISTORY_PUT)
            judge_write(&awaited[i]);
    }
}

/* What surely was not executed is no part of the history. A write that was executed twice has none
 * that an order explains. */
static void judge_histories(void)
{
    for (unsigned key = 0; key < SERVER_KEYS && !clients.repeats_writes; key++) {
        unsigned kept = 0;
        struct history_operation *operations = clients.operations[key];
        for (unsigned i = 0; i < clients.counts[key]; i++)
            if (operations[i].succeeded || (operations[i].kind == HISTORY_PUT &&
                                            explored_data.executed[operations[i].input] > 0))
                operations[kept++] = operations[i];
        EXPLORE_CHECK(history_check(operations, kept, HISTORY_ABSENT) != HISTORY_VIOLATION,
                      "no order of the operations on key %u explains their answers", key);
    }
}

/* Both servers ------------------------------------------------------------------------------- */

static bool has_first_ended(const void *unused)
{
    (void)unused;
    return explore_is_gone(FIRST_SERVER) || explored_data.is_to_stop;
}

/* The next server comes some time after the first was killed. */
static void replace_server(void *unused)
{
    (void)unused;
    explore_wait_until(has_first_ended, NULL);
    if (explored_data.is_to_stop)
        return;
    explore_sleep_ms(explore_random(TIMEOUT_MS));
    explored_server_run(NULL);
}

static void begin(unsigned combine_above)
{
    explore_quietly(true);
    explore_simulate_processes();
    memset(&clients, 0, sizeof clients);
    clients.repeats_writes = explore_random(4) == 0;
    explored_server_begin();
    explore_other_thread(FIRST_SERVER, explored_server_run, NULL);
    explore_sleep_ms(1);
    struct kv_error error = {.text = ""};
    struct clientk_options options = {.queue = explored_server_queue(),
                                      .timeout_ms = TIMEOUT_MS,
                                      .repeat_writes = clients.repeats_writes,
                                      .spin = "off",
                                      .combine_above = combine_above,
                                      .combine_groups = 1,
                                      .replies = "queue",
                                      .direct = CLIENTK_DIRECT_OFF};
    EXPLORE_CHECK(clientk_open(&options, &clients.client, &error) == KV_OK, "%s", error.text);
}

static void let_fail(void)
{
    explored_server_may_fail(LATE_MS);
    explore_other_thread(SECOND_SERVER, replace_server, NULL);
    explore_quietly(false);
    explore_may_kill(FIRST_SERVER);
}

static void end(void)
{
    explore_quietly(true);
    clientk_close(clients.client);
    explored_server_stop();
    explore_wait_for_all();
}

/* The combiner --------------------------------------------------------------------------------- */

static struct awaited calls[THREADS][OPERATIONS_EACH];

static void call(void *argument)
{
    struct awaited *own = calls[(uintptr_t)argument];
    struct clientk_value value = {.data = NULL};
    for (unsigned i = 0; i < OPERATIONS_EACH; i++) {
        unsigned key = explore_random(SERVER_KEYS);
        bool is_write = explore_random(2) == 0;
        char text[16];
        enum kv_status status;
        begin_operation(&own[i], key, is_write);
        if (is_write) {
            snprintf(text, sizeof text, "%" PRId64, own[i].noted->input);
            status = clientk_put(clients.client, explored_server_key(key),
                                 kv_slice_from_string(text), NULL, NULL);
        } else {
            status = clientk_get(clients.client, explored_server_key(key), &value);
        }
        complete(&own[i], status, &value);
    }
    clientk_value_free(&value);
}

static void run_combiner(void)
{
    memset(calls, 0, sizeof calls);
    begin(1);
    let_fail();
    for (uintptr_t i = 0; i < THREADS; i++)
        explore_thread(CLIENT, call, (void *)i);
    explore_wait_for_threads();
    end();
    for (unsigned i = 0; i < THREADS; i++)
        judge(calls[i], OPERATIONS_EACH);
    judge_histories();
}

/* The window ----------------------------------------------------------------------------------- */

static struct awaited submitted[OPERATIONS];

static void take_result(void *unused, void *tag, const struct clientk_result *result)
{
    (void)unused;
    complete(tag, result->status, &result->value);
}

/* Operations on one key take effect in the order of submission. */
static void judge_order(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = i + 1; j < count; j++) {
            const struct history_operation *a = submitted[i].noted, *b = submitted[j].noted;
            if (submitted[i].key != submitted[j].key || a->kind != HISTORY_PUT ||
                b->kind != HISTORY_PUT || submitted[i].status != KV_OK ||
                submitted[j].status != KV_OK)
                continue;
            EXPLORE_CHECK(explored_data.places[a->input] < explored_data.places[b->input],
                          "write %" PRId64 " came before %" PRId64, b->input, a->input);
        }
}

static unsigned submitted_count;

static void submit(void *argument)
{
    struct clientk_pipeline *pipeline = argument;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        unsigned key = explore_random(SERVER_KEYS);
        bool is_write = explore_random(3) > 0;
        char text[16];
        struct awaited *awaited = &submitted[submitted_count];
        begin_operation(awaited, key, is_write);
        snprintf(text, sizeof text, "%" PRId64, awaited->noted->input);
        struct clientk_operation operation = {.opcode = is_write ? CLIENTK_PUT : CLIENTK_GET,
                                              .key = explored_server_key(key),
                                              .value = kv_slice_from_string(is_write ? text : "")};
        if (clientk_pipeline_submit(pipeline, &operation, awaited) == KV_OK)
            submitted_count++;
        else
            clients.counts[key]--;
        if (explore_random(6) == 0)
            clientk_pipeline_flush(pipeline);
    }
    clientk_pipeline_flush(pipeline);
    EXPLORE_CHECK(clientk_pipeline_pending(pipeline) == 0, "operations are pending after a flush");
}

static void run_window(void)
{
    struct clientk_pipeline *pipeline = NULL;
    struct kv_error error = {.text = ""};
    memset(submitted, 0, sizeof submitted);
    submitted_count = 0;
    begin(1);
    EXPLORE_CHECK(clientk_pipeline_open(clients.client, WINDOW, BATCH, take_result, NULL, &pipeline,
                                        &error) == KV_OK,
                  "%s", error.text);
    let_fail();
    explore_thread(CLIENT, submit, pipeline);
    explore_wait_for_threads();
    explore_quietly(true);
    clientk_pipeline_close(pipeline);
    end();
    judge(submitted, submitted_count);
    judge_order(submitted_count);
    judge_histories();
}

EXPLORE_HARNESS(explore_window) = {
    .name = "window",
    .invariant = "each operation of a pipeline ends once, in order, as its status says",
    .run = run_window,
};

EXPLORE_HARNESS(explore_combiner) = {
    .name = "combiner",
    .invariant = "each call of threads that share a session ends once, as its status says",
    .run = run_combiner,
};
