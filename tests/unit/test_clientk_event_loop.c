/* Pipelines of an event loop: a descriptor to poll, and calls that never wait. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)
#define MANY       5000u
#define KEYS       50u
#define MIB        ((size_t)1 << 20)
#define HASTY_MS   400u
/* Nothing takes so long: only a pipeline that is stuck does. */
#define STUCK_MS   60000

/* What the completions of a test tell. */
struct tally {
    struct clientk_pipeline *pipeline;
    unsigned completed, by_status[KV_STATUS_COUNT];
    unsigned resubmit; /* so many times the completion submits the next operation */
    int64_t last_number;
    struct clientk_value last; /* a copy */
    unsigned rounds;           /* of the loop */
};

static void submit(struct tally *tally, struct clientk_operation operation);

static void note(void *context, void *tag, const struct clientk_result *result)
{
    struct tally *tally = context;
    tally->completed++;
    tally->by_status[result->status]++;
    tally->last_number = result->number;
    if (tag && result->status == KV_OK)
        ck_assert_int_eq(result->number, *(int64_t *)tag);
    if (result->value.size > 0) {
        free(tally->last.data);
        tally->last.data = malloc(result->value.size);
        memcpy(tally->last.data, result->value.data, result->value.size);
        tally->last.size = result->value.size;
    }
    if (tally->resubmit > 0) {
        tally->resubmit--;
        submit(tally,
               (struct clientk_operation){.opcode = CLIENTK_ADD, .key = TEXT("again"), .delta = 1});
    }
}

static void submit(struct tally *tally, struct clientk_operation operation)
{
    assert_status(clientk_pipeline_submit(tally->pipeline, &operation, NULL), KV_OK);
}

static struct tally *must_open(struct clientk *of, uint32_t window, uint32_t batch)
{
    struct tally *tally = calloc(1, sizeof *tally);
    struct kv_error error = {.status = KV_OK};
    enum kv_status status =
        clientk_pipeline_open(of, window, batch, note, tally, &tally->pipeline, &error);
    ck_assert_msg(status == KV_OK, "%s", error.text);
    int descriptor = clientk_pipeline_fd(tally->pipeline);
    ck_assert_msg(descriptor >= 0, "%s", clientk_last_error());
    ck_assert_int_eq(clientk_pipeline_fd(tally->pipeline), descriptor);
    return tally;
}

static void must_close(struct tally *tally)
{
    clientk_pipeline_close(tally->pipeline);
    free(tally->last.data);
    free(tally);
}

static bool is_readable(struct tally *tally, int timeout_ms)
{
    struct pollfd ready = {.fd = clientk_pipeline_fd(tally->pipeline), .events = POLLIN};
    return poll(&ready, 1, timeout_ms) > 0;
}

/* The program's loop, until nothing is pending. */
static void run(struct tally *tally)
{
    assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
    while (clientk_pipeline_pending(tally->pipeline) > 0) {
        ck_assert_msg(is_readable(tally, STUCK_MS), "nothing happens any more");
        assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
        tally->rounds++;
    }
}

/* Operations --------------------------------------------------------------------------------- */

static const uint32_t shapes[][2] = {{0, 0}, {1, 0}, {0, 3}, {1, 1}};

START_TEST(thousands_in_flight_keep_the_order_of_each_key)
{
    static int64_t expected[MANY];
    struct tally *tally = must_open(client, shapes[_i][0], shapes[_i][1]);
    for (unsigned i = 0; i < MANY; i++) {
        char key[32];
        snprintf(key, sizeof key, "e%d.%u", _i, i % KEYS);
        expected[i] = i / KEYS + 1;
        struct clientk_operation operation = {.opcode = CLIENTK_ADD, .key = TEXT(key), .delta = 1};
        assert_status(clientk_pipeline_submit(tally->pipeline, &operation, &expected[i]), KV_OK);
    }
    run(tally);
    ck_assert_uint_eq(tally->by_status[KV_OK], MANY);
    assert_status(clientk_pipeline_flush(tally->pipeline), KV_OK);
    must_close(tally);
}
END_TEST

START_TEST(values_of_all_sizes_go_both_ways)
{
    static const size_t sizes[] = {0, 1, 4096, 5000, 100000, MIB};
    struct tally *tally = must_open(client, 0, 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *bytes = patterned_bytes(sizes[i] + 1, i);
            submit(tally, (struct clientk_operation){.opcode = CLIENTK_PUT,
                                                     .key = TEXT("large"),
                                                     .value = kv_slice(bytes, sizes[i])});
            submit(tally, (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("large")});
            tally->last.size = 0;
            run(tally);
            ck_assert_uint_eq(tally->last.size, sizes[i]);
            ck_assert(sizes[i] == 0 || memcmp(tally->last.data, bytes, sizes[i]) == 0);
            free(bytes);
        }
    }
    ck_assert_uint_eq(tally->by_status[KV_OK], tally->completed);
    must_close(tally);
}
END_TEST

START_TEST(many_large_values_at_once)
{
    struct tally *tally = must_open(client, 0, 0);
    char *bytes = patterned_bytes(200000, 3);
    for (unsigned i = 0; i < 60; i++) {
        char key[16];
        snprintf(key, sizeof key, "m%u", i % 20);
        bool writes = i < 20;
        submit(tally, (struct clientk_operation){.opcode = writes ? CLIENTK_PUT : CLIENTK_GET,
                                                 .key = TEXT(key),
                                                 .value = kv_slice(bytes, writes ? 200000 : 0)});
    }
    run(tally);
    ck_assert_uint_eq(tally->by_status[KV_OK], 60);
    ck_assert_uint_eq(tally->last.size, 200000);
    free(bytes);
    must_close(tally);
}
END_TEST

START_TEST(every_operation_has_its_opcode)
{
    static const enum clientk_opcode opcodes[] = {CLIENTK_PUT,  CLIENTK_GET,   CLIENTK_EXISTS,
                                                  CLIENTK_SYNC, CLIENTK_STATS, CLIENTK_PING,
                                                  CLIENTK_SCAN, CLIENTK_DELETE};
    struct tally *tally = must_open(client, 0, 0);
    for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        bool has_no_key =
            opcodes[i] == CLIENTK_SYNC || opcodes[i] == CLIENTK_PING || opcodes[i] == CLIENTK_STATS;
        submit(tally, (struct clientk_operation){.opcode = opcodes[i],
                                                 .key = TEXT(has_no_key ? "" : "opcode"),
                                                 .value = TEXT("v")});
        run(tally);
        if (opcodes[i] == CLIENTK_STATS)
            ck_assert_int_eq(((char *)tally->last.data)[0], '{');
    }
    ck_assert_uint_eq(tally->by_status[KV_OK], tally->completed);
    must_close(tally);
}
END_TEST

START_TEST(completions_may_submit)
{
    struct tally *tally = must_open(client, 0, 0);
    tally->resubmit = 2000;
    submit(tally, (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("none")});
    run(tally);
    ck_assert_uint_eq(tally->completed, 2001);
    ck_assert_int_eq(tally->last_number, 2000);
    must_close(tally);
}
END_TEST

START_TEST(nothing_happens_while_nothing_is_due)
{
    struct tally *tally = must_open(client, 0, 0);
    for (unsigned i = 0; i < 100; i++)
        submit(tally, (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("none")});
    run(tally);
    ck_assert(!is_readable(tally, 50));
    live_server_signal(&server, SIGSTOP);
    submit(tally, (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("none")});
    assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
    ck_assert(!is_readable(tally, 50));
    ck_assert_uint_eq(clientk_pipeline_pending(tally->pipeline), 1);
    live_server_signal(&server, SIGCONT);
    run(tally);
    ck_assert_uint_eq(tally->by_status[KV_NOT_FOUND], 101);
    must_close(tally);
}
END_TEST

START_TEST(calls_are_refused_where_they_make_no_sense)
{
    struct tally waiting = {.completed = 0};
    assert_status(clientk_pipeline_open(client, 0, 0, note, &waiting, &waiting.pipeline, NULL),
                  KV_OK);
    assert_status(clientk_pipeline_process(waiting.pipeline), KV_USAGE);
    submit(&waiting, (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("k")});
    ck_assert_int_eq(clientk_pipeline_fd(waiting.pipeline), -1);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "under way"));
    ck_assert_uint_eq(clientk_pipeline_pending(waiting.pipeline), 1);
    clientk_pipeline_close(waiting.pipeline);
    ck_assert_int_eq(clientk_pipeline_fd(NULL), -1);
    assert_status(clientk_pipeline_process(NULL), KV_USAGE);
    ck_assert_uint_eq(clientk_pipeline_pending(NULL), 0);
    struct tally *tally = must_open(client, 0, 0);
    struct clientk_operation no_key = {.opcode = CLIENTK_GET};
    assert_status(clientk_pipeline_submit(tally->pipeline, &no_key, NULL), KV_BAD_KEY);
    ck_assert_uint_eq(clientk_pipeline_pending(tally->pipeline), 0);
    must_close(tally);
}
END_TEST

START_TEST(a_child_leaves_the_parents_loop_alone)
{
    struct tally *tally = must_open(client, 0, 0);
    submit(tally, (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("none")});
    pid_t child = fork();
    if (child == 0) {
        bool refused = clientk_pipeline_process(tally->pipeline) == KV_USAGE &&
                       clientk_pipeline_fd(tally->pipeline) == -1;
        clientk_pipeline_close(tally->pipeline);
        _exit(refused ? 0 : 1);
    }
    int ended = 1;
    ck_assert_int_eq(waitpid(child, &ended, 0), child);
    ck_assert_int_eq(ended, 0);
    run(tally);
    ck_assert_uint_eq(tally->by_status[KV_NOT_FOUND], 1);
    must_close(tally);
}
END_TEST

/* Failures ----------------------------------------------------------------------------------- */

static struct clientk *hasty(bool fail_fast)
{
    struct clientk_options options = {
        .queue = server.queue, .timeout_ms = HASTY_MS, .fail_fast = fail_fast};
    return must_connect_with(&options);
}

/* Puts and gets, one after the other, of keys that have a value each. */
static void submit_some(struct tally *tally, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "s%u", i);
        submit(tally, (struct clientk_operation){.opcode = i % 2 ? CLIENTK_GET : CLIENTK_PUT,
                                                 .key = TEXT(key),
                                                 .value = TEXT(i % 2 ? "" : "value")});
    }
}

START_TEST(a_paused_server_ends_in_timeouts)
{
    struct clientk *own = hasty(false);
    struct tally *tally = must_open(own, 0, 0);
    submit_some(tally, 10);
    run(tally);
    memset(tally->by_status, 0, sizeof tally->by_status);
    live_server_signal(&server, SIGSTOP);
    submit_some(tally, 400);
    tally->rounds = 0;
    run(tally);
    ck_assert_uint_gt(tally->by_status[KV_TIMEOUT], 0);
    ck_assert_uint_eq(tally->by_status[KV_TIMEOUT] + tally->by_status[KV_DEADLINE], 400);
    ck_assert_uint_lt(tally->rounds, 100); /* it neither slept nor spun */
    live_server_signal(&server, SIGCONT);
    memset(tally->by_status, 0, sizeof tally->by_status);
    for (int i = 0; i < 100 && tally->by_status[KV_OK] == 0; i++) {
        submit(tally, (struct clientk_operation){.opcode = CLIENTK_PING});
        run(tally);
    }
    ck_assert_uint_gt(tally->by_status[KV_OK], 0);
    must_close(tally);
    clientk_close(own);
}
END_TEST

START_TEST(a_server_that_is_killed_is_met_again)
{
    struct tally *tally = must_open(client, 0, 0);
    for (int life = 0; life < 3; life++) {
        submit_some(tally, 200);
        live_server_signal(&server, SIGSTOP);
        assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
        live_server_signal(&server, SIGKILL);
        assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
        live_server_restart(&server, NULL, NULL);
        run(tally);
        submit_some(tally, 100);
        run(tally);
    }
    ck_assert_uint_eq(tally->completed, 900);
    ck_assert_uint_eq(tally->by_status[KV_OK] + tally->by_status[KV_NOT_FOUND] +
                          tally->by_status[KV_OUTCOME_UNKNOWN],
                      900);
    ck_assert_uint_ge(tally->by_status[KV_OK], 150);
    struct clientk_info info;
    clientk_info(client, &info);
    ck_assert_uint_ge(info.reconnects, 3);
    must_close(tally);
}
END_TEST

/* The key is overwritten as soon as the call has returned. */
static void submit_and_take_back(struct tally *tally, unsigned number)
{
    static char value[1000];
    char key[16];
    snprintf(key, sizeof key, "lent%u", number);
    submit(tally, (struct clientk_operation){.opcode = CLIENTK_PUT,
                                             .key = TEXT(key),
                                             .value = kv_slice(value, sizeof value)});
    memset(key, 'x', sizeof key);
}

/* A submit finds the lane full and the server gone, and the completions of what is lost submit
 * before it returns. */
START_TEST(a_key_is_copied_whoever_submits_meanwhile)
{
    struct tally *tally = must_open(client, 0, 0);
    unsigned submitted = 0;
    live_server_signal(&server, SIGSTOP);
    submit_and_take_back(tally, submitted++);
    assert_status(clientk_pipeline_process(tally->pipeline), KV_OK); /* it is in flight */
    live_server_fill_lanes(&server);
    live_server_signal(&server, SIGKILL);
    tally->resubmit = 1;
    while (submitted < MANY && tally->completed == 0)
        submit_and_take_back(tally, submitted++);
    ck_assert_uint_eq(tally->by_status[KV_OUTCOME_UNKNOWN], 1);
    live_server_restart(&server, NULL, NULL);
    run(tally);
    ck_assert_uint_eq(tally->completed, submitted + 1);
    ck_assert_uint_eq(tally->by_status[KV_OK], submitted);
    char last[16];
    snprintf(last, sizeof last, "lent%u", submitted - 1);
    assert_status(clientk_exists(client, TEXT(last), NULL), KV_OK);
    must_close(tally);
}
END_TEST

START_TEST(without_a_server_operations_end_in_time)
{
    struct clientk *own = hasty(_i == 1);
    struct tally *tally = must_open(own, 0, 0);
    live_server_signal(&server, SIGKILL);
    submit_some(tally, 10);
    run(tally);
    submit_some(tally, 10);
    tally->rounds = 0;
    run(tally);
    ck_assert_uint_eq(tally->completed, 20);
    ck_assert_uint_ge(tally->by_status[KV_NO_SERVER], 10);
    ck_assert_uint_lt(tally->rounds, 200);
    live_server_restart(&server, NULL, NULL);
    for (int i = 0; i < 1000 && tally->by_status[KV_OK] == 0; i++) {
        submit(tally, (struct clientk_operation){.opcode = CLIENTK_PING});
        run(tally);
        clock_sleep_ms(5);
    }
    ck_assert_uint_gt(tally->by_status[KV_OK], 0);
    must_close(tally);
    clientk_close(own);
}
END_TEST

START_TEST(a_server_that_is_slow_to_welcome_is_waited_for)
{
    struct tally *tally = must_open(client, 0, 0);
    live_server_signal(&server, SIGKILL);
    live_server_restart(&server, NULL, NULL);
    struct clientk *other = must_connect(server.queue); /* it is ready */
    live_server_signal(&server, SIGSTOP);
    submit_some(tally, 10);
    assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
    for (int i = 0; i < 5; i++) {
        is_readable(tally, 30);
        assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
    }
    ck_assert_uint_eq(clientk_pipeline_pending(tally->pipeline), 10);
    live_server_signal(&server, SIGCONT);
    run(tally);
    ck_assert_uint_eq(tally->by_status[KV_OK] + tally->by_status[KV_NOT_FOUND], 10);
    clientk_close(other);
    must_close(tally);
}
END_TEST

START_TEST(a_full_request_queue_is_waited_for)
{
    struct tally *tally = must_open(client, 0, 0);
    submit_some(tally, 4);
    run(tally);
    live_server_signal(&server, SIGSTOP);
    live_server_fill_lanes(&server);
    submit_some(tally, 100);
    assert_status(clientk_pipeline_process(tally->pipeline), KV_OK);
    ck_assert(!is_readable(tally, 50));
    live_server_signal(&server, SIGCONT);
    run(tally);
    ck_assert_uint_eq(tally->by_status[KV_OK] + tally->by_status[KV_NOT_FOUND], 104);
    must_close(tally);
}
END_TEST

TEST_SUITE(clientk_event_loop)
{
    TCase *calls = tcase_create("event_loop");
    served_case_add_client(calls);
    tcase_add_loop_test(calls, thousands_in_flight_keep_the_order_of_each_key, 0, 4);
    tcase_add_test(calls, values_of_all_sizes_go_both_ways);
    tcase_add_test(calls, many_large_values_at_once);
    tcase_add_test(calls, every_operation_has_its_opcode);
    tcase_add_test(calls, completions_may_submit);
    tcase_add_test(calls, calls_are_refused_where_they_make_no_sense);
    tcase_add_test(calls, a_child_leaves_the_parents_loop_alone);
    suite_add_tcase(suite, calls);
    TCase *fragments = tcase_create("event_loop_fragments");
    served_case_add_client_without_segment(fragments);
    tcase_add_test(fragments, values_of_all_sizes_go_both_ways);
    tcase_add_test(fragments, many_large_values_at_once);
    suite_add_tcase(suite, fragments);
    TCase *failures = tcase_create("event_loop_failures");
    served_case_add_daemon_and_client(failures);
    tcase_add_test(failures, nothing_happens_while_nothing_is_due);
    tcase_add_test(failures, a_paused_server_ends_in_timeouts);
    tcase_add_test(failures, a_full_request_queue_is_waited_for);
    tcase_add_test(failures, a_server_that_is_killed_is_met_again);
    tcase_add_test(failures, a_key_is_copied_whoever_submits_meanwhile);
    tcase_add_test(failures, a_server_that_is_slow_to_welcome_is_waited_for);
    tcase_add_loop_test(failures, without_a_server_operations_end_in_time, 0, 2);
    suite_add_tcase(suite, failures);
}
