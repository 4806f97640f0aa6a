/* One handle for many threads: sessions of their own, sessions that they share, limits, forks. */
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mqkv/clientk.h"
#include "common/time/pause.h"
#include "tests/support/client_calls.h"
#include "tests/support/live_server.h"
#include "tests/support/skip.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)
#define MANY       50
#define INCREMENTS 200
#define OTHER_UID  54321 /* nobody's */

static struct live_server server;

static void start_server(void)
{
    live_server_start(&server, "--mode", "0622");
}

static void remove_server(void)
{
    live_server_remove(&server);
}

/* A thread's share of the work: adds to a counter of all and to one of its own, and reads its
 * own. */
struct share {
    struct clientk *client;
    pthread_t thread;
    unsigned number;
};

static void *do_share(void *argument)
{
    const struct share *share = argument;
    char own[24];
    snprintf(own, sizeof own, "own%u", share->number);
    struct clientk_value value = {.size = 0};
    int64_t before = 0;
    assert_status(clientk_add(share->client, TEXT(own), 0, NULL, &before, NULL), KV_OK);
    for (int64_t i = 1; i <= INCREMENTS; i++) {
        int64_t sum = 0;
        assert_status(clientk_add(share->client, TEXT("all"), 1, NULL, NULL, NULL), KV_OK);
        assert_status(clientk_add(share->client, TEXT(own), 1, NULL, &sum, NULL), KV_OK);
        ck_assert_int_eq(sum, before + i);
        assert_status(clientk_get(share->client, TEXT(own), &value), KV_OK);
        ck_assert_int_eq(atoll(value.data), before + i);
    }
    clientk_value_free(&value);
    return NULL;
}

static void run_shares(struct clientk *client, unsigned threads)
{
    struct share shares[MANY];
    for (unsigned i = 0; i < threads; i++) {
        shares[i] = (struct share){.client = client, .number = i};
        ck_assert_int_eq(pthread_create(&shares[i].thread, NULL, do_share, &shares[i]), 0);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(shares[i].thread, NULL);
}

static int64_t counter(struct clientk *client, const char *key)
{
    int64_t sum = 0;
    assert_status(clientk_add(client, TEXT(key), 0, NULL, &sum, NULL), KV_OK);
    return sum;
}

START_TEST(few_threads_have_sessions_of_their_own)
{
    struct clientk *client = must_connect(server.queue);
    int64_t before = counter(client, "all");
    run_shares(client, 4);
    ck_assert_int_eq(counter(client, "all"), before + 4 * INCREMENTS);
    struct clientk_info info;
    clientk_info(client, &info);
    ck_assert_uint_ge(info.sessions, 1);
    ck_assert_uint_le(info.sessions, 5);
    clientk_close(client);
}
END_TEST

START_TEST(many_threads_share_sessions_and_messages)
{
    struct clientk_options options = {
        .queue = server.queue, .timeout_ms = 60000, .combine_above = 3, .combine_groups = 2};
    struct clientk *client = must_connect_with(&options);
    int64_t before = counter(client, "all");
    run_shares(client, MANY);
    ck_assert_int_eq(counter(client, "all"), before + MANY * INCREMENTS);
    struct clientk_info info;
    clientk_info(client, &info);
    ck_assert_uint_le(info.sessions, 3);
    /* What a message had no time for is sent again, and counts again. */
    ck_assert_uint_ge(info.operations, 2 + MANY * (1 + 3 * INCREMENTS));
    ck_assert_uint_lt(info.messages, info.operations);
    clientk_close(client);
}
END_TEST

/* Two threads that call at about the same moment, again and again. */
struct pair {
    struct clientk *client;
    atomic_uint at_the_line;
};

#define STEPS      40000
#define MOST_SPINS 100u /* by which one of them is late: about as long as the other leads */

static void *ask_in_step(void *argument)
{
    struct pair *pair = argument;
    struct clientk_value value = {.size = 0};
    for (unsigned step = 1; step <= STEPS; step++) {
        bool late = atomic_fetch_add(&pair->at_the_line, 1) % 2;
        while (atomic_load(&pair->at_the_line) < 2 * step)
            sched_yield();
        for (unsigned spins = late ? step % MOST_SPINS : 0; spins > 0; spins--)
            pause_cpu();
        /* No key, so no message: to lead takes about as long as to come. */
        assert_status(clientk_get(pair->client, TEXT(""), &value), KV_BAD_KEY);
    }
    return NULL;
}

/* Who is forgotten then has nobody to come by. */
START_TEST(thread_that_comes_as_the_leader_leaves_leads)
{
    struct clientk_options options = {
        .queue = server.queue, .combine_above = 1, .combine_groups = 1};
    struct pair pair = {.client = must_connect_with(&options)};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_in_step, &pair), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    clientk_close(pair.client);
}
END_TEST

START_TEST(threads_come_and_go)
{
    struct clientk_options options = {
        .queue = server.queue, .timeout_ms = 60000, .combine_above = 4, .combine_groups = 1};
    struct clientk *client = must_connect_with(&options);
    int64_t before = counter(client, "all");
    static const unsigned crowds[] = {1, 12, 2, 4, 20, 3, 1};
    unsigned total = 0;
    for (unsigned i = 0; i < sizeof crowds / sizeof *crowds; i++) {
        run_shares(client, crowds[i]);
        total += crowds[i];
    }
    ck_assert_int_eq(counter(client, "all"), before + (int64_t)total * INCREMENTS);
    clientk_close(client);
}
END_TEST

START_TEST(one_thread_uses_several_handles)
{
    struct clientk *handles[5];
    for (int i = 0; i < 5; i++)
        handles[i] = must_connect(server.queue);
    for (int i = 0; i < 5; i++)
        must_put_text(handles[i], "handles", i % 2 ? "odd" : "even");
    for (int i = 0; i < 5; i += 2)
        clientk_close(handles[i]);
    assert_text(handles[1], "handles", "even");
    handles[0] = must_connect(server.queue);
    assert_text(handles[0], "handles", "even");
    clientk_close(handles[0]);
    clientk_close(handles[1]);
    clientk_close(handles[3]);
}
END_TEST

/* Limits ------------------------------------------------------------------------------------- */

/* Becomes a user without any message queues, who may have so many bytes of them. */
static void become_user_with_budget(rlim_t bytes)
{
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
    ck_assert_int_eq(setrlimit(RLIMIT_MSGQUEUE, &limit), 0);
    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setgid(OTHER_UID), 0);
    ck_assert_int_eq(setuid(OTHER_UID), 0);
}

START_TEST(reply_queue_shrinks_to_what_the_kernel_grants)
{
    if (geteuid() != 0)
        SKIP_TEST("needs root, to become another user");
    become_user_with_budget(4 * (1024 + 96) + 10);
    struct clientk *client = must_connect(server.queue);
    struct clientk_info info;
    clientk_info(client, &info);
    ck_assert_uint_eq(info.reply_depth, 4);
    ck_assert_uint_eq(info.reply_bytes, 1024);
    char *bytes = patterned_bytes(100000, 1);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_put(client, TEXT("l"), kv_slice(bytes, 100000), NULL, NULL), KV_OK);
    assert_status(clientk_get(client, TEXT("l"), &value), KV_OK);
    ck_assert_uint_eq(value.size, 100000);
    ck_assert_int_eq(memcmp(value.data, bytes, 100000), 0);
    clientk_value_free(&value);
    free(bytes);
    clientk_close(client);
}
END_TEST

START_TEST(threads_without_a_session_of_their_own_share_the_first)
{
    if (geteuid() != 0)
        SKIP_TEST("needs root, to become another user");
    become_user_with_budget(2 * (512 + 96) + 10);
    struct clientk *client = must_connect(server.queue);
    int64_t before = counter(client, "all");
    run_shares(client, 6);
    ck_assert_int_eq(counter(client, "all"), before + 6 * INCREMENTS);
    struct clientk_info info;
    clientk_info(client, &info);
    ck_assert_uint_eq(info.sessions, 1);
    ck_assert_uint_eq(info.reply_bytes, 512);
    clientk_close(client);
}
END_TEST

START_TEST(no_budget_at_all_is_told_with_the_limit)
{
    if (geteuid() != 0)
        SKIP_TEST("needs root, to become another user");
    become_user_with_budget(100);
    struct clientk_options options = {.queue = server.queue, .timeout_ms = 30000};
    struct clientk *client = NULL;
    struct kv_error error = {.status = KV_OK};
    ck_assert_int_eq(clientk_open(&options, &client, &error), KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "RLIMIT_MSGQUEUE"));
}
END_TEST

/* Forks -------------------------------------------------------------------------------------- */

/* In the child: 0 if everything is as promised. */
static int use_in_child(struct clientk *parents, struct clientk_pipeline *pipeline)
{
    struct clientk_value value = {.size = 0};
    if (clientk_get(parents, TEXT("fork"), &value) != KV_USAGE ||
        clientk_pipeline_flush(pipeline) != KV_USAGE)
        return 1;
    clientk_pipeline_close(pipeline);
    clientk_abandon(parents);
    struct clientk_options options = {.queue = server.queue, .timeout_ms = 30000};
    struct clientk *own = NULL;
    if (clientk_open(&options, &own, NULL) != KV_OK)
        return 2;
    if (clientk_get(own, TEXT("fork"), &value) != KV_OK || strcmp(value.data, "parent") != 0)
        return 3;
    clientk_value_free(&value);
    clientk_close(own);
    return 0;
}

static void ignore_completion(void *context, void *tag, const struct clientk_result *result)
{
    (void)context;
    (void)tag;
    (void)result;
}

START_TEST(child_abandons_the_handle_and_the_parent_goes_on)
{
    struct clientk *client = must_connect(server.queue);
    struct clientk_pipeline *pipeline = NULL;
    assert_status(clientk_pipeline_open(client, 0, 0, ignore_completion, NULL, &pipeline, NULL),
                  KV_OK);
    run_shares(client, 3);
    must_put_text(client, "fork", "parent");
    pid_t pid = fork();
    if (pid == 0)
        _exit(use_in_child(client, pipeline));
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    assert_text(client, "fork", "parent");
    clientk_pipeline_close(pipeline);
    clientk_close(client);
}
END_TEST

TEST_SUITE(clientk_threads)
{
    TCase *tcase = tcase_create("threads");
    tcase_set_timeout(tcase, 200);
    tcase_add_unchecked_fixture(tcase, start_server, remove_server);
    tcase_add_test(tcase, few_threads_have_sessions_of_their_own);
    tcase_add_test(tcase, many_threads_share_sessions_and_messages);
    tcase_add_test(tcase, thread_that_comes_as_the_leader_leaves_leads);
    tcase_add_test(tcase, threads_come_and_go);
    tcase_add_test(tcase, one_thread_uses_several_handles);
    tcase_add_test(tcase, child_abandons_the_handle_and_the_parent_goes_on);
    tcase_add_test(tcase, reply_queue_shrinks_to_what_the_kernel_grants);
    tcase_add_test(tcase, threads_without_a_session_of_their_own_share_the_first);
    tcase_add_test(tcase, no_budget_at_all_is_told_with_the_limit);
    suite_add_tcase(suite, tcase);
}
