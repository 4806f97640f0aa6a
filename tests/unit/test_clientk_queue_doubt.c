/* Jobs that are settled while the daemon is killed: what is said of an answer that never came. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "common/time/clock.h"
#include "mqkv/clientk_queue.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

/* Longer than any step of a test takes. */
#define LONG_MS 60000

static struct clientk_queue *must_open_queue(uint32_t lease_ms)
{
    const struct clientk_queue_options options = {.lease_ms = lease_ms};
    struct clientk_queue *opened = NULL;
    struct kv_error error = {.status = KV_OK};
    enum kv_status status = clientk_queue_open(client, TEXT("q"), &options, &opened, &error);
    ck_assert_msg(status == KV_OK, "%s", error.text);
    return opened;
}

static void must_put(struct clientk_queue *queue)
{
    const struct kv_slice payload = TEXT("work");
    assert_status(clientk_queue_put(queue, &payload, 1, NULL, NULL, NULL), KV_OK);
}

static void must_take(struct clientk_queue *queue, struct clientk_job *job)
{
    size_t taken;
    assert_status(clientk_queue_take(queue, 1, LONG_MS, job, &taken), KV_OK);
}

/* A worker that acknowledges a job when the daemon stands still. */
struct acking {
    struct clientk_queue *queue;
    const struct clientk_job *job;
    pthread_barrier_t barrier;
    enum kv_status status;
};

static void *ack_in_thread(void *context)
{
    struct acking *acking = context;
    clientk_ping(client, NULL); /* the thread has a session */
    pthread_barrier_wait(&acking->barrier);
    pthread_barrier_wait(&acking->barrier);
    acking->status = clientk_queue_ack(acking->queue, acking->job, 1);
    return NULL;
}

/* The daemon is killed while the request waits, and starts again. */
static enum kv_status ack_over_a_kill(struct clientk_queue *queue, const struct clientk_job *job)
{
    struct acking acking = {.queue = queue, .job = job};
    pthread_t thread;
    ck_assert_int_eq(pthread_barrier_init(&acking.barrier, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, ack_in_thread, &acking), 0);
    pthread_barrier_wait(&acking.barrier);
    live_server_signal(&server, SIGSTOP);
    pthread_barrier_wait(&acking.barrier);
    clock_sleep_ms(300); /* but for a machine that is very busy: then the call says NOT_FOUND */
    live_server_signal(&server, SIGKILL);
    live_server_restart(&server, NULL, NULL);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&acking.barrier);
    return acking.status;
}

START_TEST(a_job_that_another_acknowledged_is_not_said_to_be_done)
{
    struct clientk_queue *slow = must_open_queue(1), *other = must_open_queue(LONG_MS);
    struct clientk_job job = {.id = 0}, again = {.id = 0};
    must_put(other);
    must_take(slow, &job);
    must_take(other, &again);
    assert_status(clientk_queue_ack(other, &again, 1), KV_OK);
    enum kv_status status = ack_over_a_kill(slow, &job);
    ck_assert_msg(status == KV_OUTCOME_UNKNOWN || status == KV_NOT_FOUND, "%s",
                  kv_status_name(status));
    clientk_job_free(&job);
    clientk_job_free(&again);
    clientk_queue_close(slow);
    clientk_queue_close(other);
}
END_TEST

START_TEST(a_job_whose_lease_holds_is_done)
{
    struct clientk_queue *queue = must_open_queue(10 * LONG_MS);
    struct clientk_job job = {.id = 0};
    struct clientk_queue_lengths lengths;
    must_put(queue);
    must_take(queue, &job);
    assert_status(ack_over_a_kill(queue, &job), KV_OK);
    assert_status(clientk_queue_length(queue, &lengths), KV_OK);
    ck_assert_uint_eq(lengths.ready + lengths.leased, 0);
    clientk_job_free(&job);
    clientk_queue_close(queue);
}
END_TEST

TEST_SUITE(clientk_queue_doubt)
{
    TCase *tests = tcase_create("queue_doubt");
    served_case_add_daemon_and_client(tests);
    tcase_add_test(tests, a_job_that_another_acknowledged_is_not_said_to_be_done);
    tcase_add_test(tests, a_job_whose_lease_holds_is_done);
    suite_add_tcase(suite, tests);
}
