/* Calls that wait for a server which does not answer, and are interrupted by their program. The
 * timeout is longer than a test may take: without the interruption it would never end. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/live_server.h"
#include "tests/support/skip.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

#define FOREVER_MS     3600000u
#define THREADS        6
#define ASKED_AFTER_NS UINT64_C(95000000)

static struct live_server server;
static atomic_bool stop_waiting;

static bool is_interrupted(void)
{
    return atomic_load(&stop_waiting);
}

static struct clientk_options options_of_test(void)
{
    return (struct clientk_options){.queue = server.queue,
                                    .timeout_ms = FOREVER_MS,
                                    .combine_above = 2,
                                    .combine_groups = 1,
                                    .interrupted = is_interrupted};
}

static void start_server(void)
{
    live_server_start(&server, NULL, NULL);
    atomic_store(&stop_waiting, false);
}

static void remove_server(void)
{
    live_server_remove(&server);
}

START_TEST(call_to_a_frozen_server_ends)
{
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options), *none = NULL;
    must_put_text(client, "k", "before");
    live_server_signal(&server, SIGSTOP);
    atomic_store(&stop_waiting, true);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_put(client, TEXT("k"), TEXT("late"), NULL, NULL), KV_TIMEOUT);
    assert_status(clientk_get(client, TEXT("k"), &value), KV_DEADLINE);
    ck_assert_int_eq(clientk_open(&options, &none, NULL), KV_TIMEOUT);
    live_server_signal(&server, SIGCONT);
    atomic_store(&stop_waiting, false);
    must_put_text(client, "k", "after");
    assert_text(client, "k", "after");
    clientk_close(client);
}
END_TEST

START_TEST(call_that_finds_no_room_in_the_lane_ends)
{
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options);
    live_server_signal(&server, SIGSTOP);
    live_server_fill_lanes(&server);
    atomic_store(&stop_waiting, true);
    assert_status(clientk_put(client, TEXT("k"), TEXT("never"), NULL, NULL), KV_DEADLINE);
    live_server_signal(&server, SIGCONT);
    clientk_close(client);
}
END_TEST

static void do_nothing(int signal_number)
{
    (void)signal_number;
}

/* Each signal ends a sleep before it is time to ask. */
START_TEST(program_with_a_fast_timer_is_asked)
{
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options);
    live_server_signal(&server, SIGSTOP);
    struct sigaction action = {.sa_handler = do_nothing};
    struct itimerval every_20_ms = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every_20_ms, NULL);
    atomic_store(&stop_waiting, true);
    assert_status(clientk_put(client, TEXT("k"), TEXT("late"), NULL, NULL), KV_TIMEOUT);
    setitimer(ITIMER_REAL, &never, NULL);
    live_server_signal(&server, SIGCONT);
    clientk_close(client);
}
END_TEST

START_TEST(wait_for_a_server_ends)
{
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options), *none = NULL;
    must_put_text(client, "k", "v");
    live_server_signal(&server, SIGKILL);
    atomic_store(&stop_waiting, true);
    enum kv_status status = clientk_put(client, TEXT("k"), TEXT("w"), NULL, NULL);
    ck_assert(status == KV_NO_SERVER || status == KV_OUTCOME_UNKNOWN); /* it was dying still */
    assert_status(clientk_put(client, TEXT("k"), TEXT("w"), NULL, NULL), KV_NO_SERVER);
    ck_assert_int_eq(clientk_open(&options, &none, NULL), KV_NO_SERVER);
    clientk_close(client);
}
END_TEST

START_TEST(answered_calls_are_not_interrupted)
{
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options);
    atomic_store(&stop_waiting, true);
    /* The program is asked after a tenth of a second: on a busy machine a call may take that
     * long. */
    int in_time = 0;
    struct clientk_value value = {.size = 0};
    for (int i = 0; i < 100; i++) {
        uint64_t before_ns = clock_monotonic_ns();
        enum kv_status status = clientk_get(client, TEXT("nobody"), &value);
        if (clock_monotonic_ns() - before_ns < ASKED_AFTER_NS) {
            ck_assert_int_eq(status, KV_NOT_FOUND);
            in_time++;
        } else {
            ck_assert(status == KV_NOT_FOUND || status == KV_TIMEOUT || status == KV_DEADLINE);
        }
    }
    clientk_close(client);
    if (in_time == 0)
        SKIP_TEST("no call was answered within a tenth of a second");
}
END_TEST

static bool visit_nothing(void *context, const struct clientk_entry *entry)
{
    (void)context, (void)entry;
    return true;
}

/* Each page and each message is answered at once; together they may take long. */
START_TEST(long_calls_end_between_their_parts)
{
    static struct clientk_operation operations[5000];
    static struct clientk_result results[5000];
    static char keys[5000][24];
    const size_t count = sizeof operations / sizeof operations[0];
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options);
    for (size_t i = 0; i < count; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        operations[i] = (struct clientk_operation){.opcode = CLIENTK_PUT, .key = TEXT(keys[i])};
    }
    assert_status(clientk_execute(client, operations, count, results), KV_OK);
    atomic_store(&stop_waiting, true);
    enum kv_status status = clientk_execute(client, operations, count, results);
    ck_assert(status == KV_DEADLINE || status == KV_TIMEOUT); /* on a busy machine in the first */
    ck_assert_int_eq(results[count - 1].status, KV_DEADLINE);
    uint64_t cursor = 0; /* with a limit of one a page looks at few entries */
    assert_status(clientk_scan(client, TEXT("nobody"), true, &cursor, 1, visit_nothing, NULL),
                  KV_TIMEOUT);
    atomic_store(&stop_waiting, false);
    assert_status(clientk_scan(client, TEXT("nobody"), true, &cursor, 1, visit_nothing, NULL),
                  KV_OK);
    ck_assert_uint_eq(cursor, 0);
    clientk_close(client);
}
END_TEST

static void *put_and_tell(void *client)
{
    return (void *)(uintptr_t)clientk_put(client, TEXT("shared"), TEXT("x"), NULL, NULL);
}

START_TEST(all_threads_that_share_a_session_are_let_go)
{
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options);
    must_put_text(client, "shared", "before");
    live_server_signal(&server, SIGSTOP);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, put_and_tell, client), 0);
    clock_sleep_ms(150);
    atomic_store(&stop_waiting, true);
    for (int i = 0; i < THREADS; i++) {
        void *status = NULL;
        pthread_join(threads[i], &status);
        enum kv_status got = (enum kv_status)(uintptr_t)status;
        ck_assert(got == KV_TIMEOUT || got == KV_DEADLINE);
    }
    live_server_signal(&server, SIGCONT);
    clientk_close(client);
}
END_TEST

static void count_completed(void *context, void *tag, const struct clientk_result *result)
{
    (void)tag;
    ck_assert(result->status == KV_TIMEOUT || result->status == KV_DEADLINE);
    ++*(int *)context;
}

START_TEST(pipeline_completes_what_is_in_flight)
{
    struct clientk_options options = options_of_test();
    struct clientk *client = must_connect_with(&options);
    struct clientk_pipeline *pipeline = NULL;
    int completed = 0;
    ck_assert_int_eq(
        clientk_pipeline_open(client, 2, 1, count_completed, &completed, &pipeline, NULL), KV_OK);
    live_server_signal(&server, SIGSTOP);
    struct clientk_operation operations[] = {
        {.opcode = CLIENTK_PUT, .key = TEXT("a"), .value = TEXT("1")},
        {.opcode = CLIENTK_PUT, .key = TEXT("b"), .value = TEXT("2")}};
    for (int i = 0; i < 2; i++)
        assert_status(clientk_pipeline_submit(pipeline, &operations[i], NULL), KV_OK);
    atomic_store(&stop_waiting, true);
    assert_status(clientk_pipeline_flush(pipeline), KV_TIMEOUT);
    ck_assert_int_eq(completed, 2);
    clientk_pipeline_close(pipeline);
    live_server_signal(&server, SIGCONT);
    clientk_close(client);
}
END_TEST

TEST_SUITE(clientk_interruption)
{
    TCase *tcase = tcase_create("interruption");
    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, start_server, remove_server);
    tcase_add_test(tcase, call_to_a_frozen_server_ends);
    tcase_add_test(tcase, call_that_finds_no_room_in_the_lane_ends);
    tcase_add_test(tcase, program_with_a_fast_timer_is_asked);
    tcase_add_test(tcase, wait_for_a_server_ends);
    tcase_add_test(tcase, answered_calls_are_not_interrupted);
    tcase_add_test(tcase, long_calls_end_between_their_parts);
    tcase_add_test(tcase, all_threads_that_share_a_session_are_let_go);
    tcase_add_test(tcase, pipeline_completes_what_is_in_flight);
    suite_add_tcase(suite, tcase);
}
