/* A server that is stopped, killed, frozen and started again while clients work. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/live_server.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

/* Of handles whose calls are to run out of time. What is to be answered before may do so too, on a
 * busy machine, and is then tried again. */
#define HASTY_MS 800
#define TRIES    100

static struct live_server server;

static struct clientk *connect_in_the_end(const struct clientk_options *options)
{
    struct clientk *client = NULL;
    struct kv_error error = {0};
    for (int i = 0; i < TRIES; i++)
        if (clientk_open(options, &client, &error) == KV_OK)
            return client;
    ck_abort_msg("no connection: %s", error.text);
}

static void put_in_the_end(struct clientk *client, const char *key, const char *text)
{
    enum kv_status status = KV_TIMEOUT;
    for (int i = 0; i < TRIES && status != KV_OK; i++)
        status = clientk_put(client, TEXT(key), TEXT(text), NULL, NULL);
    ck_assert_int_eq(status, KV_OK);
}

static void start_server(void)
{
    live_server_start(&server, NULL, NULL);
}

static void remove_server(void)
{
    live_server_remove(&server);
}

/* While idle --------------------------------------------------------------------------------- */

static void restart_while_idle(int signal_number)
{
    struct clientk *client = must_connect(server.queue);
    must_put_text(client, "idle", "before");
    live_server_signal(&server, signal_number);
    clock_sleep_ms(20); /* longer than a tick: a client that was just answered may not look */
    live_server_restart(&server, NULL, NULL);
    must_put_text(client, "idle", "after");
    assert_text(client, "idle", "after");
    struct clientk_info info;
    clientk_info(client, &info);
    ck_assert_uint_eq(info.reconnects, 1);
    ck_assert_uint_eq(info.server_pid, (uint32_t)server.pid);
    clientk_close(client);
}

START_TEST(idle_client_writes_on_after_a_stop)
{
    restart_while_idle(SIGTERM);
}
END_TEST

START_TEST(idle_client_writes_on_after_a_kill)
{
    restart_while_idle(SIGKILL);
}
END_TEST

START_TEST(client_without_server_gives_up_in_time)
{
    struct clientk_options options = {.queue = server.queue, .timeout_ms = HASTY_MS};
    struct clientk *client = connect_in_the_end(&options);
    put_in_the_end(client, "k", "v");
    live_server_signal(&server, SIGKILL);
    clock_sleep_ms(20);
    struct clientk_value value = {.size = 0};
    uint64_t start_ms = clock_monotonic_coarse_ms();
    assert_status(clientk_get(client, TEXT("k"), &value), KV_NO_SERVER);
    ck_assert_uint_ge(clock_monotonic_coarse_ms() - start_ms, HASTY_MS * 3 / 4);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), server.queue));
    assert_status(clientk_put(client, TEXT("k"), TEXT("w"), NULL, NULL), KV_NO_SERVER);
    clientk_close(client);
}
END_TEST

START_TEST(fail_fast_client_does_not_wait_for_a_server)
{
    struct clientk_options options = {
        .queue = server.queue, .timeout_ms = 60000, .fail_fast = true};
    struct clientk *client = must_connect_with(&options);
    live_server_signal(&server, SIGTERM);
    clock_sleep_ms(20);
    struct clientk_operation operations[] = {{.opcode = CLIENTK_GET, .key = TEXT("a")},
                                             {.opcode = CLIENTK_PUT, .key = TEXT("b")}};
    struct clientk_result results[2] = {{.status = KV_OK}};
    assert_status(clientk_execute(client, operations, 2, results), KV_NO_SERVER);
    ck_assert_int_eq(results[0].status, KV_NO_SERVER);
    ck_assert_int_eq(results[1].status, KV_NO_SERVER);
    clientk_close(client);
}
END_TEST

/* Frozen ------------------------------------------------------------------------------------- */

START_TEST(frozen_server_ends_in_a_timeout)
{
    struct clientk_options options = {.queue = server.queue, .timeout_ms = HASTY_MS};
    struct clientk *client = must_connect(server.queue);
    put_in_the_end(client, "f", "before");
    struct clientk *hasty = connect_in_the_end(&options);
    put_in_the_end(hasty, "f", "before");
    live_server_signal(&server, SIGSTOP);
    assert_status(clientk_put(hasty, TEXT("f"), TEXT("lost"), NULL, NULL), KV_TIMEOUT);
    /* From now on the session is in doubt, and nothing is sent before there is a new one. */
    assert_status(clientk_put(hasty, TEXT("f"), TEXT("never"), NULL, NULL), KV_DEADLINE);
    struct clientk *none = NULL;
    struct kv_error error;
    ck_assert_int_eq(clientk_open(&options, &none, &error), KV_TIMEOUT);
    live_server_signal(&server, SIGCONT);
    /* The late request had its deadline, so it was not executed behind the caller's back. */
    assert_text(client, "f", "before");
    clientk_close(hasty);
    hasty = must_connect(server.queue);
    must_put_text(hasty, "f", "after");
    assert_text(client, "f", "after");
    clientk_close(hasty);
    clientk_close(client);
}
END_TEST

START_TEST(client_is_answered_after_the_server_was_frozen)
{
    struct clientk_options options = {.queue = server.queue, .timeout_ms = HASTY_MS};
    struct clientk *client = connect_in_the_end(&options);
    put_in_the_end(client, "g", "1");
    live_server_signal(&server, SIGSTOP);
    struct clientk_value value = {.size = 0};
    for (int i = 0; i < 4; i++)
        ck_assert_int_ne(clientk_get(client, TEXT("g"), &value), KV_OK);
    live_server_signal(&server, SIGCONT);
    enum kv_status status = KV_TIMEOUT;
    for (int i = 0; i < 100 && status != KV_OK; i++)
        status = clientk_get(client, TEXT("g"), &value);
    ck_assert_int_eq(status, KV_OK);
    ck_assert_str_eq(value.data, "1");
    clientk_value_free(&value);
    clientk_close(client);
}
END_TEST

static void *put_never(void *client)
{
    clock_sleep_ms(20 + (uint64_t)(rand() % 100));
    assert_status(clientk_put(client, TEXT("full"), TEXT("never"), NULL, NULL), KV_DEADLINE);
    return NULL;
}

START_TEST(what_found_no_room_in_the_lane_is_never_executed)
{
    struct clientk_options options = {
        .queue = server.queue, .timeout_ms = HASTY_MS, .combine_above = 1, .combine_groups = 1};
    struct clientk *client = connect_in_the_end(&options);
    put_in_the_end(client, "full", "before");
    live_server_signal(&server, SIGSTOP);
    live_server_fill_lanes(&server);
    pthread_t threads[6];
    for (unsigned i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, put_never, client);
    for (unsigned i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    live_server_signal(&server, SIGCONT);
    struct clientk *patient = must_connect(server.queue);
    assert_text(patient, "full", "before");
    clientk_close(patient);
    clientk_close(client);
}
END_TEST

/* Under load --------------------------------------------------------------------------------- */

#define WRITERS  6
#define RESTARTS 4

/* What one writer knows of its key, whose value counts up. */
struct failing_writer {
    struct clientk *client;
    pthread_t thread;
    unsigned number;
    long acknowledged;  /* highest value that was */
    long highest;       /* that was tried */
    unsigned unknown;   /* outcomes */
    unsigned surprises; /* anything that must not be */
    atomic_long rounds; /* of write_and_count */
};

static atomic_bool writers_stop;

static void read_back(struct failing_writer *writer, const char *key, struct clientk_value *value)
{
    enum kv_status status = clientk_get(writer->client, TEXT(key), value);
    if (status == KV_NOT_FOUND) {
        writer->surprises += writer->acknowledged > 0;
        return;
    }
    long found = status == KV_OK ? atol(value->data) : -1;
    if (found < writer->acknowledged || found > writer->highest)
        writer->surprises++;
    else
        writer->acknowledged = found; /* an unknown write turned out to have happened */
}

static void *write_and_count(void *argument)
{
    struct failing_writer *writer = argument;
    char key[24];
    snprintf(key, sizeof key, "w%u", writer->number);
    struct clientk_value value = {.size = 0};
    while (!atomic_load(&writers_stop)) {
        char text[24];
        snprintf(text, sizeof text, "%ld", ++writer->highest);
        enum kv_status status = clientk_put(writer->client, TEXT(key), TEXT(text), NULL, NULL);
        if (status == KV_OK)
            writer->acknowledged = writer->highest;
        else if (status == KV_OUTCOME_UNKNOWN)
            writer->unknown++;
        else
            writer->surprises++;
        read_back(writer, key, &value);
        atomic_fetch_add(&writer->rounds, 1);
    }
    clientk_value_free(&value);
    return NULL;
}

/* Waits until every writer has begun and ended a round. */
static void wait_for_rounds(struct failing_writer *writers)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        long before = atomic_load(&writers[i].rounds);
        unsigned tries = 0;
        for (; atomic_load(&writers[i].rounds) < before + 2 && tries < 6000; tries++)
            clock_sleep_ms(10);
        ck_assert_msg(tries < 6000, "writer %u stands still", i);
    }
}

static void restart_under_load(int signal_number, bool repeat_writes, uint32_t combine_above)
{
    struct clientk_options options = {.queue = server.queue,
                                      .timeout_ms = 60000,
                                      .repeat_writes = repeat_writes,
                                      .combine_above = combine_above};
    struct clientk *client = must_connect_with(&options);
    struct failing_writer writers[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct failing_writer){.client = client, .number = i};
        pthread_create(&writers[i].thread, NULL, write_and_count, &writers[i]);
    }
    for (int i = 0; i < RESTARTS; i++) {
        wait_for_rounds(writers);
        clock_sleep_ms(50);
        live_server_signal(&server, signal_number);
        live_server_restart(&server, NULL, NULL);
    }
    wait_for_rounds(writers);
    atomic_store(&writers_stop, true);
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        ck_assert_uint_eq(writers[i].surprises, 0);
        ck_assert_int_gt(writers[i].acknowledged, 0);
        ck_assert_uint_le(writers[i].unknown, repeat_writes ? 0 : RESTARTS);
    }
    struct clientk_info info;
    clientk_info(client, &info);
    ck_assert_uint_gt(info.reconnects, 0);
    clientk_close(client);
}

START_TEST(acknowledged_writes_survive_stops)
{
    restart_under_load(SIGTERM, false, 0);
}
END_TEST

START_TEST(acknowledged_writes_survive_kills)
{
    restart_under_load(SIGKILL, false, 0);
}
END_TEST

START_TEST(shared_sessions_account_for_writes_too)
{
    restart_under_load(SIGKILL, false, 1);
}
END_TEST

START_TEST(repeated_writes_have_no_unknown_outcome)
{
    restart_under_load(SIGKILL, true, 0);
}
END_TEST

/* Pipelines ---------------------------------------------------------------------------------- */

struct failure_tally {
    unsigned completed;
    unsigned unknown;
    unsigned failed;
    long acknowledged;
};

static void tally_up(void *context, void *tag, const struct clientk_result *result)
{
    struct failure_tally *tally = context;
    tally->completed++;
    if (result->status == KV_OK)
        tally->acknowledged = (long)(intptr_t)tag;
    else if (result->status == KV_OUTCOME_UNKNOWN)
        tally->unknown++;
    else
        tally->failed++;
}

static void restart_under_pipeline(int signal_number, bool repeat_writes)
{
    struct clientk_options options = {
        .queue = server.queue, .timeout_ms = 60000, .repeat_writes = repeat_writes};
    struct clientk *client = must_connect_with(&options);
    struct failure_tally tally = {.completed = 0};
    struct clientk_pipeline *pipeline = NULL;
    assert_status(clientk_pipeline_open(client, 0, 20, tally_up, &tally, &pipeline, NULL), KV_OK);
    unsigned submitted = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3000; i++) {
            char text[24];
            snprintf(text, sizeof text, "%u", ++submitted);
            struct clientk_operation operation = {
                .opcode = CLIENTK_PUT, .key = TEXT("piped"), .value = TEXT(text)};
            assert_status(
                clientk_pipeline_submit(pipeline, &operation, (void *)(intptr_t)submitted), KV_OK);
        }
        live_server_signal(&server, signal_number);
        live_server_restart(&server, NULL, NULL);
    }
    enum kv_status status = clientk_pipeline_flush(pipeline);
    ck_assert(status == KV_OK || status == KV_OUTCOME_UNKNOWN);
    ck_assert_uint_eq(tally.completed, submitted);
    ck_assert_uint_eq(tally.failed, 0);
    if (repeat_writes)
        ck_assert_uint_eq(tally.unknown, 0);
    char text[24];
    snprintf(text, sizeof text, "%u", submitted);
    if (tally.acknowledged == (long)submitted)
        assert_text(client, "piped", text);
    clientk_pipeline_close(pipeline);
    clientk_close(client);
}

START_TEST(pipeline_completes_everything_over_kills)
{
    restart_under_pipeline(SIGKILL, false);
}
END_TEST

START_TEST(pipeline_repeats_writes_over_stops)
{
    restart_under_pipeline(SIGTERM, true);
}
END_TEST

START_TEST(pipeline_without_server_completes_with_that)
{
    struct clientk_options options = {.queue = server.queue, .timeout_ms = HASTY_MS};
    struct clientk *client = connect_in_the_end(&options);
    struct failure_tally tally = {.completed = 0};
    struct clientk_pipeline *pipeline = NULL;
    enum kv_status opened = KV_TIMEOUT;
    for (int i = 0; i < TRIES && opened != KV_OK; i++)
        opened = clientk_pipeline_open(client, 0, 0, tally_up, &tally, &pipeline, NULL);
    ck_assert_int_eq(opened, KV_OK);
    struct clientk_operation operation = {
        .opcode = CLIENTK_PUT, .key = TEXT("p"), .value = TEXT("v")};
    assert_status(clientk_pipeline_submit(pipeline, &operation, NULL), KV_OK);
    live_server_signal(&server, SIGKILL);
    clock_sleep_ms(20);
    assert_status(clientk_pipeline_flush(pipeline), KV_NO_SERVER);
    ck_assert_uint_eq(tally.failed, 1);
    assert_status(clientk_pipeline_submit(pipeline, &operation, NULL), KV_NO_SERVER);
    ck_assert_uint_eq(tally.completed, 1);
    clientk_pipeline_close(pipeline);
    clientk_close(client);
}
END_TEST

static TCase *server_case(const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 200);
    tcase_add_checked_fixture(tcase, start_server, remove_server);
    return tcase;
}

TEST_SUITE(clientk_failures)
{
    TCase *idle = server_case("idle");
    tcase_add_test(idle, idle_client_writes_on_after_a_stop);
    tcase_add_test(idle, idle_client_writes_on_after_a_kill);
    tcase_add_test(idle, client_without_server_gives_up_in_time);
    tcase_add_test(idle, fail_fast_client_does_not_wait_for_a_server);
    suite_add_tcase(suite, idle);
    TCase *frozen = server_case("frozen");
    tcase_add_test(frozen, frozen_server_ends_in_a_timeout);
    tcase_add_test(frozen, client_is_answered_after_the_server_was_frozen);
    tcase_add_test(frozen, what_found_no_room_in_the_lane_is_never_executed);
    suite_add_tcase(suite, frozen);
    TCase *load = server_case("load");
    tcase_add_test(load, acknowledged_writes_survive_stops);
    tcase_add_test(load, acknowledged_writes_survive_kills);
    tcase_add_test(load, shared_sessions_account_for_writes_too);
    tcase_add_test(load, repeated_writes_have_no_unknown_outcome);
    tcase_add_test(load, pipeline_completes_everything_over_kills);
    tcase_add_test(load, pipeline_repeats_writes_over_stops);
    tcase_add_test(load, pipeline_without_server_completes_with_that);
    suite_add_tcase(suite, load);
}
