/* Pipelines: several messages in flight, the order of each key kept. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "common/numbers/random.h"
#include "tests/support/store_variants.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)
#define KEYS       20
#define STEPS      20000

static void start_server_by_priority(void)
{
    live_server_start(&server, "--sched", "priority");
}

static void start_server_by_cost(void)
{
    live_server_start(&server, "--sched", "cost");
}

static struct clientk_pipeline *must_open(uint32_t window, uint32_t batch,
                                          clientk_complete complete, void *context)
{
    struct clientk_pipeline *pipeline = NULL;
    struct kv_error error = {.status = KV_OK};
    enum kv_status status =
        clientk_pipeline_open(client, window, batch, complete, context, &pipeline, &error);
    ck_assert_msg(status == KV_OK, "%s", error.text);
    return pipeline;
}

/* Order ------------------------------------------------------------------------------------- */

/* What the results must be if the operations on each key took effect in the order of submission. */
struct ledger {
    int64_t submitted[KEYS]; /* the counter of the key after all that was submitted */
    unsigned completed;
};

/* One step on its way. */
struct step {
    struct ledger *ledger;
    enum clientk_opcode opcode;
    int64_t expected;
};

static void check_step(void *context, void *tag, const struct clientk_result *result)
{
    struct ledger *ledger = context;
    const struct step *step = tag;
    ck_assert_int_eq(result->status, KV_OK);
    if (step->opcode == CLIENTK_ADD)
        ck_assert_int_eq(result->number, step->expected);
    else
        ck_assert_int_eq(atoll(result->value.data), step->expected);
    ledger->completed++;
}

/* change_every: steps between changes of the priority; 0: none. */
static void run_ordered_steps(uint32_t window, uint32_t batch, unsigned change_every)
{
    static struct ledger ledger;
    static struct step steps[STEPS];
    struct clientk_pipeline *pipeline = must_open(window, batch, check_step, &ledger);
    struct random_state random;
    random_seed(&random, 7);
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned number = (unsigned)random_below(&random, KEYS);
        char key[24];
        snprintf(key, sizeof key, "p%u.%u.%u", window, batch, number);
        if (change_every > 0 && i % change_every == 0)
            assert_status(
                clientk_pipeline_set_priority(pipeline, (unsigned)random_below(&random, 32)),
                KV_OK);
        bool reads = ledger.submitted[number] > 0 && random_below(&random, 2) == 0;
        if (!reads)
            ledger.submitted[number]++;
        steps[i] = (struct step){.ledger = &ledger,
                                 .opcode = reads ? CLIENTK_GET : CLIENTK_ADD,
                                 .expected = ledger.submitted[number]};
        struct clientk_operation operation = {
            .opcode = steps[i].opcode, .key = TEXT(key), .delta = 1};
        assert_status(clientk_pipeline_submit(pipeline, &operation, &steps[i]), KV_OK);
        memset(key, 'z', sizeof key); /* it was copied */
    }
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    ck_assert_uint_eq(ledger.completed, STEPS);
    clientk_pipeline_close(pipeline);
}

START_TEST(order_of_each_key_is_kept)
{
    run_ordered_steps(0, 0, 0);
}
END_TEST

START_TEST(order_of_each_key_is_kept_in_small_messages)
{
    run_ordered_steps(4, 1, 0);
}
END_TEST

START_TEST(order_of_each_key_is_kept_with_one_message_in_flight)
{
    run_ordered_steps(1, 7, 0);
}
END_TEST

START_TEST(order_of_each_key_is_kept_between_priorities)
{
    run_ordered_steps(4, 3, 2);
}
END_TEST

/* Each append writes the whole value: the daemon leaves over what a message asks for beyond its
 * bounds. */
static void check_size(void *context, void *tag, const struct clientk_result *result)
{
    int64_t *size = context;
    ck_assert_int_eq(result->status, KV_OK);
    ck_assert_int_eq(result->number, (int64_t)(intptr_t)tag);
    ck_assert_int_eq(result->number, ++*size);
}

START_TEST(what_the_daemon_leaves_over_is_sent_again)
{
    static char large[900000];
    int64_t size = sizeof large;
    memset(large, 'x', sizeof large);
    assert_status(clientk_put(client, TEXT("large"), kv_slice(large, sizeof large), NULL, NULL),
                  KV_OK);
    struct clientk_pipeline *pipeline = must_open(2, 0, check_size, &size);
    for (intptr_t i = 1; i <= 300; i++) {
        struct clientk_operation operation = {
            .opcode = CLIENTK_APPEND, .key = TEXT("large"), .value = TEXT("y")};
        assert_status(clientk_pipeline_submit(pipeline, &operation, (void *)(sizeof large + i)),
                      KV_OK);
    }
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    clientk_pipeline_close(pipeline);
    ck_assert_int_eq(size, sizeof large + 300);
}
END_TEST

START_TEST(impossible_priorities_are_refused)
{
    struct ledger ledger;
    struct clientk_pipeline *pipeline = must_open(2, 1, check_step, &ledger);
    assert_status(clientk_pipeline_set_priority(pipeline, CLIENTK_MAX_PRIORITY), KV_OK);
    assert_status(clientk_pipeline_set_priority(pipeline, CLIENTK_MAX_PRIORITY + 1), KV_USAGE);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "32"));
    assert_status(clientk_pipeline_set_priority(NULL, 0), KV_USAGE);
    assert_status(clientk_set_priority(client, CLIENTK_MAX_PRIORITY + 1), KV_USAGE);
    assert_status(clientk_set_priority(NULL, 0), KV_USAGE);
    clientk_pipeline_close(pipeline);
}
END_TEST

/* Values ------------------------------------------------------------------------------------ */

#define BIG_COUNT 40

static size_t big_size(unsigned i)
{
    return i % 4 == 0 ? 10 : 3000 + 5000 * (size_t)i;
}

struct big {
    unsigned index;
    unsigned completed;
    bool reads;
};

static void check_big(void *context, void *tag, const struct clientk_result *result)
{
    struct big *all = context;
    struct big *one = tag;
    ck_assert_int_eq(result->status, KV_OK);
    if (one->reads) {
        char *expected = patterned_bytes(big_size(one->index), one->index);
        ck_assert_uint_eq(result->value.size, big_size(one->index));
        ck_assert_int_eq(memcmp(result->value.data, expected, result->value.size), 0);
        free(expected);
    }
    all->completed++;
}

START_TEST(big_values_travel_in_a_pipeline)
{
    static struct big total;
    static struct big tags[4 * BIG_COUNT];
    struct clientk_pipeline *pipeline = must_open(0, 0, check_big, &total);
    for (unsigned i = 0; i < 4 * BIG_COUNT; i++) {
        tags[i] = (struct big){.index = i % BIG_COUNT, .reads = i / BIG_COUNT % 2 == 1};
        char key[24];
        snprintf(key, sizeof key, "big%u", tags[i].index);
        char *bytes = patterned_bytes(big_size(tags[i].index), tags[i].index);
        struct clientk_operation operation = {
            .opcode = tags[i].reads ? CLIENTK_GET : CLIENTK_PUT,
            .key = TEXT(key),
            .value = kv_slice(bytes, tags[i].reads ? 0 : big_size(tags[i].index))};
        assert_status(clientk_pipeline_submit(pipeline, &operation, &tags[i]), KV_OK);
        free(bytes);
    }
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    ck_assert_uint_eq(total.completed, 4 * BIG_COUNT);
    clientk_pipeline_close(pipeline);
}
END_TEST

static void note_size(void *context, void *tag, const struct clientk_result *result)
{
    (void)context;
    ck_assert_int_eq(result->status, KV_OK);
    *(size_t *)tag = result->value.size;
}

static void submit(struct clientk_pipeline *pipeline, enum clientk_opcode opcode, const char *key,
                   size_t *size)
{
    struct clientk_operation operation = {.opcode = opcode, .key = TEXT(key)};
    if (opcode == CLIENTK_PUT)
        operation.value = TEXT("new");
    assert_status(clientk_pipeline_submit(pipeline, &operation, size), KV_OK);
}

/* Of two values that together are larger than an answer the second is refused, and asked for again:
 * the write of its key, which finds the window full, must wait for that. */
START_TEST(read_that_is_sent_again_is_not_overtaken)
{
    enum { OLD_BYTES = 1000000 };
    char *old = patterned_bytes(OLD_BYTES, 1);
    assert_status(clientk_put(client, TEXT("first"), kv_slice(old, OLD_BYTES), NULL, NULL), KV_OK);
    assert_status(clientk_put(client, TEXT("second"), kv_slice(old, OLD_BYTES), NULL, NULL), KV_OK);
    free(old);
    struct clientk_pipeline *pipeline = must_open(1, 2, note_size, NULL);
    size_t sizes[3];
    submit(pipeline, CLIENTK_GET, "first", &sizes[0]);
    submit(pipeline, CLIENTK_GET, "second", &sizes[1]);
    submit(pipeline, CLIENTK_PUT, "second", &sizes[2]);
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    ck_assert_uint_eq(sizes[0], OLD_BYTES);
    ck_assert_uint_eq(sizes[1], OLD_BYTES);
    assert_text(client, "second", "new");
    clientk_pipeline_close(pipeline);
}
END_TEST

/* Use and misuse ---------------------------------------------------------------------------- */

struct reentrance {
    struct clientk_pipeline *pipeline;
    unsigned refused;
};

static void reenter(void *context, void *tag, const struct clientk_result *result)
{
    (void)tag;
    (void)result;
    struct reentrance *reentrance = context;
    struct clientk_operation operation = {.opcode = CLIENTK_GET, .key = TEXT("k")};
    if (clientk_pipeline_submit(reentrance->pipeline, &operation, NULL) == KV_USAGE &&
        clientk_pipeline_flush(reentrance->pipeline) == KV_USAGE)
        reentrance->refused++;
}

START_TEST(completion_function_may_not_use_its_pipeline)
{
    struct reentrance reentrance = {.refused = 0};
    reentrance.pipeline = must_open(0, 0, reenter, &reentrance);
    struct clientk_operation operation = {.opcode = CLIENTK_GET, .key = TEXT("k")};
    assert_status(clientk_pipeline_submit(reentrance.pipeline, &operation, NULL), KV_OK);
    assert_status(clientk_pipeline_flush(reentrance.pipeline), KV_OK);
    ck_assert_uint_eq(reentrance.refused, 1);
    clientk_pipeline_close(reentrance.pipeline);
}
END_TEST

static void count_completion(void *context, void *tag, const struct clientk_result *result)
{
    (void)tag;
    (void)result;
    (*(unsigned *)context)++;
}

START_TEST(impossible_operations_are_not_taken)
{
    unsigned completed = 0;
    struct clientk_pipeline *pipeline = must_open(0, 0, count_completion, &completed);
    struct clientk_operation no_key = {.opcode = CLIENTK_GET};
    assert_status(clientk_pipeline_submit(pipeline, &no_key, NULL), KV_BAD_KEY);
    struct clientk_operation no_opcode = {.key = TEXT("k")};
    assert_status(clientk_pipeline_submit(pipeline, &no_opcode, NULL), KV_USAGE);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "opcode"));
    char *bytes = patterned_bytes(2 << 20, 1);
    struct clientk_operation too_big = {
        .opcode = CLIENTK_PUT, .key = TEXT("k"), .value = kv_slice(bytes, 2 << 20)};
    assert_status(clientk_pipeline_submit(pipeline, &too_big, NULL), KV_VALUE_TOO_BIG);
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    ck_assert_uint_eq(completed, 0);
    clientk_pipeline_close(pipeline);
    free(bytes);
}
END_TEST

START_TEST(close_completes_what_is_pending_also_after_the_handle)
{
    unsigned completed = 0;
    struct clientk *own = must_connect(server.queue);
    struct clientk_pipeline *pipeline = NULL;
    assert_status(clientk_pipeline_open(own, 0, 0, count_completion, &completed, &pipeline, NULL),
                  KV_OK);
    struct clientk_operation operation = {
        .opcode = CLIENTK_PUT, .key = TEXT("late"), .value = TEXT("1")};
    assert_status(clientk_pipeline_submit(pipeline, &operation, NULL), KV_OK);
    clientk_close(own);
    clientk_pipeline_close(pipeline);
    ck_assert_uint_eq(completed, 1);
    assert_text(client, "late", "1");
}
END_TEST

START_TEST(info_counts_open_and_closed_pipelines)
{
    struct clientk_info info;
    unsigned completed = 0;
    struct clientk_pipeline *pipeline = must_open(0, 0, count_completion, &completed);
    struct clientk_operation operation = {.opcode = CLIENTK_GET, .key = TEXT("late")};
    for (int i = 0; i < 10; i++)
        assert_status(clientk_pipeline_submit(pipeline, &operation, NULL), KV_OK);
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    clientk_info(client, &info);
    ck_assert_uint_eq(info.operations, 10);
    ck_assert_uint_eq(info.sessions, 2);
    clientk_pipeline_close(pipeline);
    clientk_info(client, &info);
    ck_assert_uint_eq(info.operations, 10);
    ck_assert_uint_eq(info.messages, 1);
    ck_assert_uint_eq(info.sessions, 1);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, order_of_each_key_is_kept);
    tcase_add_test(tcase, what_the_daemon_leaves_over_is_sent_again);
    tcase_add_test(tcase, big_values_travel_in_a_pipeline);
    tcase_add_test(tcase, read_that_is_sent_again_is_not_overtaken);
}

static TCase *order_case(const char *name, void (*start)(void))
{
    TCase *tcase = tcase_create(name);
    served_case_add_client_of(tcase, start);
    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, order_of_each_key_is_kept_between_priorities);
    return tcase;
}

TEST_SUITE(clientk_pipeline)
{
    TCase *segment = tcase_create("segment");
    served_case_add_client(segment);
    add_tests(segment);
    tcase_add_test(segment, order_of_each_key_is_kept_in_small_messages);
    tcase_add_test(segment, order_of_each_key_is_kept_with_one_message_in_flight);
    tcase_add_test(segment, completion_function_may_not_use_its_pipeline);
    tcase_add_test(segment, impossible_operations_are_not_taken);
    tcase_add_test(segment, close_completes_what_is_pending_also_after_the_handle);
    tcase_add_test(segment, impossible_priorities_are_refused);
    tcase_add_test(segment, info_counts_open_and_closed_pipelines);
    suite_add_tcase(suite, segment);
    TCase *fragments = tcase_create("fragments");
    served_case_add_client_without_segment(fragments);
    add_tests(fragments);
    suite_add_tcase(suite, fragments);
    suite_add_tcase(suite, order_case("priority", start_server_by_priority));
    if (locking_count() > 1) /* the lab is there */
        suite_add_tcase(suite, order_case("cost", start_server_by_cost));
}
