/* Queues for jobs, on a real server. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clientk/queue/time_tree.h"
#include "common/time/clock.h"
#include "mqkv/clientk_queue.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

/* Longer than any step of a test takes. */
#define LONG_MS 60000

static struct clientk_queue *queue;
static struct clientk_job job;

static struct clientk_queue *must_open_queue(struct clientk *of, const char *name,
                                             uint32_t lease_ms)
{
    const struct clientk_queue_options options = {.lease_ms = lease_ms};
    struct clientk_queue *opened = NULL;
    struct kv_error error = {.status = KV_OK};
    enum kv_status status = clientk_queue_open(of, TEXT(name), &options, &opened, &error);
    ck_assert_msg(status == KV_OK, "%s", error.text);
    return opened;
}

/* All tests share a server: each has a queue of its own name. */
static void open_queue(void)
{
    char name[32];
    snprintf(name, sizeof name, "q%ld-%" PRIu64, (long)getpid(), clock_monotonic_ns());
    queue = must_open_queue(client, name, LONG_MS);
}

static void close_queue(void)
{
    clientk_job_free(&job);
    clientk_queue_close(queue);
}

static void put_with(const char *payload, const struct clientk_put_job_options *options)
{
    struct kv_slice slice = TEXT(payload);
    size_t put;
    assert_status(clientk_queue_put(queue, &slice, 1, options, NULL, &put), KV_OK);
    ck_assert_uint_eq(put, 1);
}

static void put_text(const char *payload)
{
    put_with(payload, NULL);
}

static enum kv_status take_one(int timeout_ms)
{
    size_t taken;
    return clientk_queue_take(queue, 1, timeout_ms, &job, &taken);
}

static void must_take(const char *payload)
{
    assert_status(take_one(LONG_MS), KV_OK);
    ck_assert_str_eq(job.payload.data, payload);
}

static void must_ack(void)
{
    assert_status(clientk_queue_ack(queue, &job, 1), KV_OK);
}

static void assert_lengths(uint64_t ready, uint64_t leased, uint64_t later, uint64_t dead)
{
    struct clientk_queue_lengths lengths;
    assert_status(clientk_queue_length(queue, &lengths), KV_OK);
    ck_assert_uint_eq(lengths.ready, ready);
    ck_assert_uint_eq(lengths.leased, leased);
    ck_assert_uint_eq(lengths.later, later);
    ck_assert_uint_eq(lengths.dead, dead);
}

/* A clientk_visit: the number of entries. */
static bool count_entry(void *context, const struct clientk_entry *entry)
{
    (void)entry;
    ++*(size_t *)context;
    return true;
}

static size_t entries_of(const char *kind)
{
    char prefix[64];
    size_t count = 0;
    struct clientk_value name = {0};
    snprintf(prefix, sizeof prefix, "queue:%s", kind);
    assert_status(clientk_scan(client, TEXT(prefix), true, NULL, 0, count_entry, &count), KV_OK);
    clientk_value_free(&name);
    return count;
}

START_TEST(jobs_come_in_the_order_in_which_they_were_put)
{
    char text[16];
    assert_status(take_one(0), KV_NOT_FOUND);
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "%d", i);
        put_text(text);
    }
    assert_lengths(300, 0, 0, 0);
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "%d", i);
        must_take(text);
        ck_assert_uint_eq(job.attempts, 1);
        must_ack();
    }
    assert_status(take_one(0), KV_NOT_FOUND);
    assert_lengths(0, 0, 0, 0);
}
END_TEST

START_TEST(many_are_put_and_taken_together)
{
    enum { MANY = 150 };
    struct kv_slice payloads[MANY];
    char texts[MANY][8];
    uint64_t ids[MANY];
    struct clientk_job jobs[64] = {{.id = 0}};
    size_t put, taken, seen = 0;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "%zu", i);
        payloads[i] = TEXT(texts[i]);
    }
    assert_status(clientk_queue_put(queue, payloads, MANY, NULL, ids, &put), KV_OK);
    ck_assert_uint_eq(put, MANY);
    while (clientk_queue_take(queue, 64, 0, jobs, &taken) == KV_OK) {
        for (size_t i = 0; i < taken; i++, seen++) {
            ck_assert_str_eq(jobs[i].payload.data, texts[seen]);
            ck_assert_uint_eq(jobs[i].id, ids[seen]);
        }
        assert_status(clientk_queue_ack(queue, jobs, taken), KV_OK);
        assert_status(clientk_queue_ack(queue, jobs, taken), KV_NOT_FOUND);
    }
    ck_assert_uint_eq(seen, MANY);
    for (size_t i = 0; i < 64; i++)
        clientk_job_free(&jobs[i]);
    assert_lengths(0, 0, 0, 0);
}
END_TEST

START_TEST(a_higher_priority_comes_first)
{
    put_text("low");
    put_with("high", &(struct clientk_put_job_options){.priority = 9});
    put_with("middle", &(struct clientk_put_job_options){.priority = 4});
    must_take("high");
    must_take("middle");
    must_take("low");
    assert_lengths(0, 3, 0, 0);
    put_with("x", &(struct clientk_put_job_options){.priority = 1});
    struct kv_slice payload = TEXT("x");
    assert_status(clientk_queue_put(queue, &payload, 1,
                                    &(struct clientk_put_job_options){.priority = 10}, NULL, NULL),
                  KV_USAGE);
}
END_TEST

START_TEST(a_lease_that_ends_gives_the_job_to_the_next_worker)
{
    struct clientk_job first = {.id = 0};
    size_t taken;
    struct clientk_queue *hasty = must_open_queue(client, "hasty", 50);
    struct kv_slice payload = TEXT("job");
    assert_status(clientk_queue_put(hasty, &payload, 1, NULL, NULL, NULL), KV_OK);
    assert_status(clientk_queue_take(hasty, 1, 0, &first, &taken), KV_OK);
    assert_status(clientk_queue_take(hasty, 1, LONG_MS, &job, &taken), KV_OK);
    ck_assert_uint_eq(job.id, first.id);
    ck_assert_uint_eq(job.attempts, 2);
    ck_assert_uint_ge(clock_realtime_ms(), first.until_ms);
    assert_status(clientk_queue_ack(hasty, &first, 1), KV_VERSION_MISMATCH);
    assert_status(clientk_queue_extend(hasty, &first, 0), KV_VERSION_MISMATCH);
    assert_status(clientk_queue_extend(hasty, &job, LONG_MS), KV_OK);
    ck_assert_uint_gt(job.until_ms, clock_realtime_ms() + LONG_MS / 2);
    assert_status(clientk_queue_ack(hasty, &job, 1), KV_OK);
    assert_status(clientk_queue_ack(hasty, &job, 1), KV_NOT_FOUND);
    clientk_job_free(&first);
    clientk_queue_close(hasty);
}
END_TEST

START_TEST(who_never_acknowledges_makes_a_dead_letter)
{
    size_t taken;
    struct clientk_queue *hasty = must_open_queue(client, "poison", 1);
    struct kv_slice payload = TEXT("poison");
    struct clientk_put_job_options twice = {.max_attempts = 2};
    assert_status(clientk_queue_put(hasty, &payload, 1, &twice, NULL, NULL), KV_OK);
    assert_status(clientk_queue_take(hasty, 1, LONG_MS, &job, &taken), KV_OK);
    assert_status(clientk_queue_take(hasty, 1, LONG_MS, &job, &taken), KV_OK);
    assert_status(clientk_queue_take(hasty, 1, 100, &job, &taken), KV_NOT_FOUND);
    struct clientk_queue_lengths lengths;
    assert_status(clientk_queue_length(hasty, &lengths), KV_OK);
    ck_assert_uint_eq(lengths.dead, 1);
    ck_assert_uint_eq(lengths.ready + lengths.leased, 0);
    clientk_queue_close(hasty);
}
END_TEST

/* What a list has shown. */
static char shown[256];

static bool show_payload(void *context, const struct clientk_job *seen,
                         enum clientk_job_state state)
{
    ck_assert_int_eq(state, *(enum clientk_job_state *)context);
    snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s:%s,",
             (const char *)seen->payload.data, (const char *)seen->reason.data);
    return true;
}

static void assert_listed(enum clientk_job_state state, const char *expected)
{
    shown[0] = '\0';
    assert_status(clientk_queue_list(queue, state, 0, show_payload, &state), KV_OK);
    ck_assert_str_eq(shown, expected);
}

START_TEST(what_failed_is_tried_again_and_then_dead)
{
    bool dead;
    put_with("job", &(struct clientk_put_job_options){.max_attempts = 3, .backoff_ms = 20});
    for (unsigned attempt = 1; attempt <= 3; attempt++) {
        must_take("job");
        ck_assert_uint_eq(job.attempts, attempt);
        ck_assert_str_eq(job.reason.data, attempt == 1 ? "" : "no luck");
        uint64_t before_ms = clock_realtime_ms();
        assert_status(clientk_queue_fail(queue, &job, TEXT("no luck"), CLIENTK_BACKOFF, &dead),
                      KV_OK);
        ck_assert_int_eq(dead, attempt == 3);
        assert_lengths(0, 0, attempt < 3, attempt == 3);
        if (attempt < 3) {
            must_take("job");
            ck_assert_uint_ge(clock_realtime_ms(), before_ms + 20u * attempt);
            assert_status(clientk_queue_release(queue, &job, 0), KV_OK);
        }
    }
    assert_listed(CLIENTK_JOB_DEAD, "job:no luck,");
    uint64_t count;
    assert_status(clientk_queue_revive(queue, 0, &count), KV_OK);
    ck_assert_uint_eq(count, 1);
    assert_lengths(1, 0, 0, 0);
    must_take("job");
    ck_assert_uint_eq(job.attempts, 1);
    assert_status(clientk_queue_bury(queue, &job, TEXT("hopeless")), KV_OK);
    assert_status(clientk_queue_drop(queue, CLIENTK_JOB_DEAD, 0, &count), KV_OK);
    ck_assert_uint_eq(count, 1);
    assert_lengths(0, 0, 0, 0);
}
END_TEST

START_TEST(what_is_released_keeps_its_place)
{
    put_text("first");
    put_text("second");
    must_take("first");
    assert_status(clientk_queue_release(queue, &job, 0), KV_OK);
    assert_status(clientk_queue_release(queue, &job, 0), KV_VERSION_MISMATCH);
    must_take("first");
    ck_assert_uint_eq(job.attempts, 1);
    assert_status(clientk_queue_release(queue, &job, 30), KV_OK);
    must_take("second");
    must_take("first");
}
END_TEST

START_TEST(delayed_jobs_come_when_they_are_due)
{
    static const unsigned delays_ms[] = {150, 30, 90, 60, 120, 1};
    char text[16];
    for (unsigned i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "%u", delays_ms[i]);
        put_with(text, &(struct clientk_put_job_options){.delay_ms = delays_ms[i]});
    }
    put_with("never", &(struct clientk_put_job_options){.delay_ms = CLIENTK_MAX_JOB_DELAY_MS});
    uint64_t last = 0; /* 16 ms are one moment */
    for (unsigned i = 0; i < 6; i++) {
        assert_status(take_one(LONG_MS), KV_OK);
        unsigned delay_ms = (unsigned)atoi(job.payload.data);
        ck_assert_uint_ge(clock_realtime_ms(), job.put_ms + delay_ms);
        ck_assert_uint_ge((job.put_ms + delay_ms + 15) / 16, last);
        last = (job.put_ms + delay_ms + 15) / 16;
        must_ack();
    }
    assert_lengths(0, 0, 1, 0);
    assert_listed(CLIENTK_JOB_LATER, "never:,");
    uint64_t count;
    assert_status(clientk_queue_drop(queue, CLIENTK_JOB_LATER, 0, &count), KV_OK);
    ck_assert_uint_eq(count, 1);
    assert_lengths(0, 0, 0, 0);
}
END_TEST

START_TEST(many_delayed_jobs_come_once_each)
{
    enum { MANY = 500 };
    static bool seen[MANY];
    struct kv_slice payloads[MANY];
    char texts[MANY][8];
    struct clientk_job jobs[64] = {{.id = 0}};
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "%u", i);
        payloads[i] = TEXT(texts[i]);
    }
    for (unsigned i = 0; i < MANY; i += 100) {
        struct clientk_put_job_options options = {.delay_ms = 1 + i / 5, .priority = i / 100};
        assert_status(clientk_queue_put(queue, payloads + i, 100, &options, NULL, NULL), KV_OK);
    }
    for (unsigned count = 0; count < MANY;) {
        size_t taken;
        assert_status(clientk_queue_take(queue, 64, LONG_MS, jobs, &taken), KV_OK);
        for (size_t i = 0; i < taken; i++, count++) {
            int number = atoi(jobs[i].payload.data);
            ck_assert(!seen[number]);
            seen[number] = true;
        }
        assert_status(clientk_queue_ack(queue, jobs, taken), KV_OK);
    }
    for (size_t i = 0; i < 64; i++)
        clientk_job_free(&jobs[i]);
    assert_lengths(0, 0, 0, 0);
}
END_TEST

START_TEST(slow_jobs_hold_nobody_up)
{
    enum { SLOW = 100, QUICK = 400 };
    static struct clientk_job slow[SLOW];
    char text[16];
    size_t taken;
    struct clientk_queue *slow_queue = must_open_queue(client, "slow", LONG_MS);
    struct clientk_queue *fixture_queue = queue;
    queue = slow_queue;
    for (int i = 0; i < SLOW + QUICK; i++) {
        snprintf(text, sizeof text, "%d", i);
        put_text(text);
    }
    for (int i = 0; i < SLOW; i++) {
        assert_status(clientk_queue_take(slow_queue, 1, 0, &slow[i], &taken), KV_OK);
    }
    for (int i = 0; i < QUICK; i++) {
        assert_status(take_one(0), KV_OK);
        must_ack();
    }
    ck_assert_uint_gt(entries_of("slow:away:"), 0);
    assert_lengths(0, SLOW, 0, 0);
    for (int i = 1; i < SLOW; i += 2) /* in place or away, they are theirs */
        assert_status(clientk_queue_ack(slow_queue, &slow[i], 1), KV_OK);
    for (int i = 0; i < SLOW; i += 2)
        assert_status(clientk_queue_extend(slow_queue, &slow[i], 1), KV_OK);
    for (int i = 0; i < SLOW / 2; i++) { /* the others come back */
        assert_status(take_one(LONG_MS), KV_OK);
        ck_assert_uint_eq(job.attempts, 2);
        must_ack();
    }
    assert_lengths(0, 0, 0, 0);
    assert_status(clientk_queue_ack(slow_queue, &slow[0], 1), KV_NOT_FOUND);
    for (int i = 0; i < SLOW; i++)
        clientk_job_free(&slow[i]);
    ck_assert_uint_eq(entries_of("slow:away:"), 0);
    clientk_queue_close(slow_queue);
    queue = fixture_queue;
}
END_TEST

/* A clientk_visit_job. */
static bool count_job(void *context, const struct clientk_job *seen, enum clientk_job_state state)
{
    (void)seen, (void)state;
    ++*(size_t *)context;
    return true;
}

static size_t jobs_listed(enum clientk_job_state state)
{
    size_t count = 0;
    assert_status(clientk_queue_list(queue, state, 0, count_job, &count), KV_OK);
    return count;
}

START_TEST(jobs_of_dead_workers_are_ready)
{
    enum { SLOW = 128, ALL = 160, LEASE_MS = 3000 };
    static struct clientk_job slow[SLOW];
    const struct clientk_put_job_options soon = {.delay_ms = 1};
    size_t taken;
    uint64_t dropped;
    struct clientk_queue *fixture_queue = queue;
    struct clientk_queue *dying = must_open_queue(client, "dying", LEASE_MS);
    queue = must_open_queue(client, "dying", LONG_MS);
    for (int i = 0; i < ALL; i++)
        put_text("x");
    for (int i = 0; i < SLOW; i += 64)
        assert_status(clientk_queue_take(dying, 64, 0, &slow[i], &taken), KV_OK);
    for (int i = 0; i < 3; i++) { /* these move the oldest ones away */
        assert_status(take_one(0), KV_OK);
        must_ack();
    }
    ck_assert_uint_gt(entries_of("dying:away:"), 0);
    put_with("later", &soon);
    clock_sleep_ms(LEASE_MS + 50);
    assert_lengths(ALL - 3 + 1, 0, 0, 0);
    ck_assert_uint_eq(jobs_listed(CLIENTK_JOB_READY), ALL - 3 + 1);
    ck_assert_uint_eq(jobs_listed(CLIENTK_JOB_LEASED), 0);
    ck_assert_uint_eq(jobs_listed(CLIENTK_JOB_LATER), 0);
    assert_status(clientk_queue_drop(queue, CLIENTK_JOB_LATER, 0, &dropped), KV_OK);
    ck_assert_uint_eq(dropped, 0);
    assert_status(clientk_queue_drop(queue, CLIENTK_JOB_READY, 0, &dropped), KV_OK);
    ck_assert_uint_eq(dropped, ALL - 3 + 1);
    assert_lengths(0, 0, 0, 0);
    ck_assert_uint_eq(entries_of("dying:away:"), 0);
    for (int i = 0; i < SLOW; i++)
        clientk_job_free(&slow[i]);
    clientk_queue_close(dying);
    clientk_queue_close(queue);
    queue = fixture_queue;
}
END_TEST

START_TEST(a_single_slow_job_keeps_no_head)
{
    enum { QUICK = 200 };
    struct clientk_job slow = {0};
    char text[16];
    size_t taken;
    struct clientk_queue *slow_queue = must_open_queue(client, "stuck", LONG_MS);
    struct clientk_queue *fixture_queue = queue;
    queue = slow_queue;
    for (int i = 0; i <= QUICK; i++) {
        snprintf(text, sizeof text, "%d", i);
        put_text(text);
    }
    assert_status(clientk_queue_take(slow_queue, 1, 0, &slow, &taken), KV_OK);
    for (int i = 0; i < QUICK; i++) {
        assert_status(take_one(0), KV_OK);
        must_ack();
    }
    assert_status(take_one(0), KV_NOT_FOUND);
    ck_assert_uint_eq(entries_of("stuck:away:"), 1);
    assert_status(clientk_queue_ack(slow_queue, &slow, 1), KV_OK);
    assert_lengths(0, 0, 0, 0);
    clientk_job_free(&slow);
    clientk_queue_close(slow_queue);
    queue = fixture_queue;
}
END_TEST

START_TEST(large_payloads_stand_apart)
{
    enum { LARGE = 300000 };
    char *bytes = patterned_bytes(LARGE, 7);
    struct kv_slice payload = kv_slice(bytes, LARGE);
    struct clientk_queue *large = must_open_queue(client, "large", LONG_MS);
    size_t taken;
    for (int round = 0; round < 3; round++)
        assert_status(clientk_queue_put(large, &payload, 1, NULL, NULL, NULL), KV_OK);
    ck_assert_uint_eq(entries_of("large:body:"), 3);
    assert_status(clientk_queue_take(large, 1, 0, &job, &taken), KV_OK);
    ck_assert(kv_slice_equal(kv_slice(job.payload.data, job.payload.size), payload));
    assert_status(clientk_queue_fail(large, &job, TEXT("again"), 0, NULL), KV_OK);
    for (int round = 0; round < 3; round++) {
        assert_status(clientk_queue_take(large, 1, LONG_MS, &job, &taken), KV_OK);
        ck_assert(kv_slice_equal(kv_slice(job.payload.data, job.payload.size), payload));
        assert_status(clientk_queue_ack(large, &job, 1), KV_OK);
    }
    ck_assert_uint_eq(entries_of("large:body:"), 0);
    free(bytes);
    clientk_queue_close(large);
}
END_TEST

static void *put_soon(void *context)
{
    (void)context;
    struct clientk_queue *other = must_open_queue(client, "awaited", LONG_MS);
    struct kv_slice payload = TEXT("awaited");
    usleep(50000);
    assert_status(clientk_queue_put(other, &payload, 1, NULL, NULL, NULL), KV_OK);
    clientk_queue_close(other);
    return NULL;
}

START_TEST(who_waits_is_woken)
{
    pthread_t thread;
    size_t taken;
    struct clientk_queue *other = must_open_queue(client, "awaited", LONG_MS);
    ck_assert_int_eq(pthread_create(&thread, NULL, put_soon, NULL), 0);
    assert_status(clientk_queue_take(other, 1, LONG_MS, &job, &taken), KV_OK);
    ck_assert_str_eq(job.payload.data, "awaited");
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    const uint64_t begin_ms = clock_monotonic_coarse_ms();
    assert_status(clientk_queue_take(other, 1, 60, &job, &taken), KV_NOT_FOUND);
    ck_assert_uint_ge(clock_monotonic_coarse_ms() + 10, begin_ms + 60);
    clientk_queue_close(other);
}
END_TEST

START_TEST(receipts_settle_jobs_of_others)
{
    char text[CLIENTK_RECEIPT_BYTES];
    struct clientk_job read = {.id = 0};
    put_text("job");
    must_take("job");
    clientk_queue_receipt(&job, text);
    assert_status(clientk_queue_read_receipt(TEXT(text), &read), KV_OK);
    assert_status(clientk_queue_ack(queue, &read, 1), KV_OK);
    assert_lengths(0, 0, 0, 0);
    static const char *const bad[] = {"",
                                      "1.2",
                                      "1.2.0",
                                      "10.2.0000000000000001",
                                      "1.2.1",
                                      " 1.2.0000000000000001",
                                      "1.2.0000000000000001 ",
                                      "-1.2.0000000000000001",
                                      "1.99999999999999999999999.0000000000000001"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(clientk_queue_read_receipt(TEXT(bad[i]), &read), KV_USAGE);
}
END_TEST

START_TEST(impossible_arguments_are_refused)
{
    struct clientk_queue *none = NULL;
    struct kv_error error = {.status = KV_OK};
    char long_name[CLIENTK_MAX_QUEUE_NAME + 2];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    size_t taken;
    struct clientk_job jobs[1] = {{.id = 0}};
    assert_status(clientk_queue_open(client, TEXT(""), NULL, &none, &error), KV_USAGE);
    assert_status(clientk_queue_open(client, TEXT("a:b"), NULL, &none, &error), KV_USAGE);
    assert_status(clientk_queue_open(client, TEXT("a\n"), NULL, &none, &error), KV_USAGE);
    assert_status(clientk_queue_open(client, TEXT(long_name), NULL, &none, &error), KV_USAGE);
    ck_assert_ptr_null(none);
    struct clientk_queue_options newer = {.reserved = {1}};
    assert_status(clientk_queue_open(client, TEXT("q"), &newer, &none, &error), KV_UNSUPPORTED);
    assert_status(clientk_queue_take(queue, 0, 0, jobs, &taken), KV_USAGE);
    assert_status(clientk_queue_take(queue, 65, 0, jobs, &taken), KV_USAGE);
    assert_status(clientk_queue_take(NULL, 1, 0, jobs, &taken), KV_USAGE);
    assert_status(clientk_queue_ack(queue, jobs, 1), KV_USAGE);
    assert_status(clientk_queue_put(queue, NULL, 1, NULL, NULL, NULL), KV_USAGE);
    assert_status(clientk_queue_drop(queue, CLIENTK_JOB_LEASED, 0, NULL), KV_USAGE);
    clientk_queue_close(NULL);
    clientk_job_free(NULL);
}
END_TEST

START_TEST(what_makes_no_sense_is_told_or_passed_over)
{
    must_put_text(client, "queue:foul:tails", "x");
    struct clientk_queue *foul = must_open_queue(client, "foul", LONG_MS);
    size_t taken;
    struct kv_slice payload = TEXT("x");
    assert_status(clientk_queue_take(foul, 1, 0, &job, &taken), KV_CORRUPT);
    assert_status(clientk_queue_put(foul, &payload, 1, NULL, NULL, NULL), KV_CORRUPT);
    assert_status(clientk_delete(client, TEXT("queue:foul:tails"), NULL, NULL), KV_OK);
    assert_status(clientk_queue_put(foul, &payload, 1, NULL, NULL, NULL), KV_OK);
    must_put_text(client, "queue:foul:job:0:0", "nonsense");
    assert_status(clientk_queue_put(foul, &payload, 1, NULL, NULL, NULL), KV_OK);
    assert_status(clientk_queue_take(foul, 1, 0, &job, &taken), KV_OK);
    assert_status(clientk_queue_ack(foul, &job, 1), KV_OK);
    /* A reference is for a time, and no job of a lane: nobody waits for its end. */
    static const uint8_t reference[64] = {'J', '1', 2};
    struct kv_slice bytes = kv_slice(reference, sizeof reference);
    assert_status(clientk_queue_put(foul, &payload, 1, NULL, NULL, NULL), KV_OK);
    assert_status(clientk_put(client, TEXT("queue:foul:job:0:2"), bytes, NULL, NULL), KV_OK);
    assert_status(clientk_queue_take(foul, 1, 0, &job, &taken), KV_NOT_FOUND);
    clientk_queue_close(foul);
}
END_TEST

static void put_bytes(const char *key, const void *bytes, size_t size)
{
    assert_status(clientk_put(client, TEXT(key), kv_slice(bytes, size), NULL, NULL), KV_OK);
}

/* The entry `kind` of a queue, 11 numbers of which one counts. */
static void put_numbers(const char *key, unsigned lane, uint64_t number)
{
    uint64_t numbers[11] = {0};
    numbers[lane] = number;
    put_bytes(key, numbers, sizeof numbers);
}

START_TEST(tails_without_jobs_are_told)
{
    struct clientk_queue *foul = must_open_queue(client, "vast", LONG_MS);
    struct clientk_queue *fixture_queue = queue;
    enum clientk_job_state state = CLIENTK_JOB_READY;
    uint64_t count;
    queue = foul;
    static const uint64_t vast[] = {UINT64_C(1) << 60, UINT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        put_numbers("queue:vast:tails", 0, vast[i]);
        assert_status(take_one(LONG_MS), KV_CORRUPT);
        ck_assert_ptr_nonnull(strstr(clientk_last_error(), "queue:vast:tails says"));
        assert_status(clientk_queue_list(foul, state, 0, show_payload, &state), KV_CORRUPT);
        put_numbers("queue:vast:tails", 10, vast[i]);
        assert_status(clientk_queue_drop(foul, CLIENTK_JOB_DEAD, 0, &count), KV_CORRUPT);
        ck_assert_ptr_nonnull(strstr(clientk_last_error(), "lane dead"));
    }
    clientk_queue_close(foul);
    queue = fixture_queue;
}
END_TEST

START_TEST(dead_letters_that_have_left_are_not_passed_again)
{
    enum { DEAD = 150 };
    struct clientk_queue *graves = must_open_queue(client, "graves", LONG_MS);
    struct clientk_queue *fixture_queue = queue;
    queue = graves;
    for (int i = 0; i < DEAD; i++) {
        put_text("job");
        must_take("job");
        assert_status(clientk_queue_bury(queue, &job, TEXT("hopeless")), KV_OK);
    }
    uint64_t count, head;
    struct clientk_value heads = {0};
    assert_status(clientk_queue_revive(queue, 70, &count), KV_OK);
    ck_assert_uint_eq(count, 70);
    assert_status(clientk_queue_drop(queue, CLIENTK_JOB_DEAD, 70, &count), KV_OK);
    ck_assert_uint_eq(count, 70);
    assert_status(clientk_get(client, TEXT("queue:graves:heads"), &heads), KV_OK);
    ck_assert_uint_eq(heads.size, 88);
    memcpy(&head, (const char *)heads.data + 80, sizeof head);
    ck_assert_uint_eq(head, 140);
    assert_lengths(70, 0, 0, 10);
    clientk_value_free(&heads);
    clientk_queue_close(graves);
    queue = fixture_queue;
}
END_TEST

/* A clientk_visit: the key, of which there is one. */
static bool copy_key(void *context, const struct clientk_entry *entry)
{
    memcpy(context, entry->key.data, entry->key.size);
    ((char *)context)[entry->key.size] = '\0';
    return true;
}

/* A dead letter tells that an entry cannot be read, and nothing else comes of it. */
static void assert_told(const char *key)
{
    char expected[160];
    uint64_t count;
    assert_status(take_one(0), KV_NOT_FOUND);
    assert_status(take_one(0), KV_NOT_FOUND);
    snprintf(expected, sizeof expected, ":%s cannot be read,", key);
    assert_listed(CLIENTK_JOB_DEAD, expected);
    assert_lengths(0, 0, 0, 1);
    assert_status(clientk_queue_revive(queue, 0, &count), KV_OK);
    ck_assert_uint_eq(count, 0);
    assert_status(clientk_queue_drop(queue, CLIENTK_JOB_DEAD, 0, &count), KV_OK);
    ck_assert_uint_eq(count, 1);
    assert_status(take_one(0), KV_NOT_FOUND);
    assert_lengths(0, 0, 0, 0);
    struct clientk_value value = {0};
    assert_status(clientk_get(client, TEXT(key), &value), KV_OK); /* what it was is not lost */
    clientk_value_free(&value);
}

START_TEST(what_cannot_be_read_becomes_one_dead_letter)
{
    static const struct clientk_put_job_options soon = {.delay_ms = 50};
    struct clientk_queue *foul = must_open_queue(client, "torn", LONG_MS);
    struct clientk_queue *fixture_queue = queue;
    char key[160];
    queue = foul;
    put_with("late", &soon);
    assert_status(clientk_scan(client, TEXT("queue:torn:due:"), true, NULL, 0, copy_key, key),
                  KV_OK);
    put_bytes(key, "nonsense", 8);
    put_with("later", &(struct clientk_put_job_options){.delay_ms = 100});
    must_take("later"); /* nobody is kept from it */
    must_ack();
    assert_told(key);

    put_text("now");
    assert_status(clientk_scan(client, TEXT("queue:torn:job:0:"), true, NULL, 0, copy_key, key),
                  KV_OK);
    put_bytes(key, "nonsense", 8);
    put_text("behind");
    must_take("behind");
    must_ack();
    assert_told(key);

    /* Moments, as somebody else would write them; tree: that of number 1. */
    static const uint64_t malformed[][2] = {{UINT64_C(1) << 60, 0}, {3, 3}, {1, 2}};
    static const uint8_t first[128] = {1}, second[128] = {2};
    for (size_t i = 0; i < 3; i++) {
        put_bytes("queue:torn:time:1", malformed[i], sizeof malformed[i]);
        put_bytes("queue:torn:tree", first, sizeof first);
        put_bytes("queue:torn:tree:1:0", first, sizeof first);
        put_bytes("queue:torn:tree:2:0", first, sizeof first);
        put_bytes("queue:torn:tree:3:0", second, sizeof second);
        assert_status(clientk_add(client, TEXT("queue:torn:later"), 0, NULL, NULL, NULL), KV_OK);
        assert_told("queue:torn:time:1");
        ck_assert_uint_eq(entries_of("torn:tree"), 0);
    }
    clientk_queue_close(foul);
    queue = fixture_queue;
}
END_TEST

/* Nodes that say that there are moments below, where there are none, would be walked for ever. */
START_TEST(a_tree_full_of_nothing_ends_a_look)
{
    struct clientk_queue *fixture_queue = queue,
                         *superseded = must_open_queue(client, "superseded", LONG_MS);
    uint8_t full[128];
    char key[64];
    bool found;
    uint64_t number;
    memset(full, 0xff, sizeof full);
    put_bytes("queue:superseded:tree", full, sizeof full);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "queue:superseded:tree:1:%x", i);
        put_bytes(key, full, sizeof full);
    }
    assert_status(time_find(superseded, 0, &found, &number), KV_CORRUPT);
    queue = superseded;
    put_text("now");
    must_take("now"); /* nobody is kept from the lanes */
    must_ack();
    clientk_queue_close(superseded);
    queue = fixture_queue;
}
END_TEST

/* A million jobs may be due at midnight. */
START_TEST(a_full_moment_is_followed_by_the_next)
{
    struct clientk_queue *full = must_open_queue(client, "full", LONG_MS);
    const uint64_t no_room[] = {QUEUE_MOST_DUE + 7, 7}, room_for_one[] = {QUEUE_MOST_DUE - 1, 0};
    struct time_moment moment;
    put_bytes("queue:full:time:5", no_room, sizeof no_room);
    put_bytes("queue:full:time:6", room_for_one, sizeof room_for_one);
    assert_status(time_read_room(full, 4, 2, &moment), KV_OK);
    ck_assert_uint_eq(moment.number, 4);
    assert_status(time_read_room(full, 5, 1, &moment), KV_OK);
    ck_assert_uint_eq(moment.number, 6);
    assert_status(time_read_room(full, 5, 2, &moment), KV_OK);
    ck_assert_uint_eq(moment.number, 7);
    clientk_queue_close(full);
}
END_TEST

/* Workers of one queue that do each job, and add 1 to an entry for it. */
enum { WORKERS = 4, PRODUCERS = 3, JOBS_OF_EACH = 300 };

static void *produce(void *context)
{
    struct clientk_queue *mine = must_open_queue(client, "crowd", LONG_MS);
    for (unsigned i = 0; i < JOBS_OF_EACH; i++) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIuPTR "-%u", (uintptr_t)context, i);
        struct kv_slice payload = TEXT(text);
        struct clientk_put_job_options options = {.priority = i % 3, .delay_ms = i % 10 == 0};
        assert_status(clientk_queue_put(mine, &payload, 1, &options, NULL, NULL), KV_OK);
    }
    clientk_queue_close(mine);
    return NULL;
}

static void *consume(void *context)
{
    struct clientk_queue *mine = must_open_queue(client, "crowd", LONG_MS);
    struct clientk_job jobs[5] = {{.id = 0}};
    size_t taken;
    uintptr_t number = (uintptr_t)context;
    while (clientk_queue_take(mine, 1 + number, 500, jobs, &taken) == KV_OK) {
        for (size_t i = 0; i < taken; i++) {
            char key[64];
            int64_t sum;
            snprintf(key, sizeof key, "did:%s", (const char *)jobs[i].payload.data);
            assert_status(clientk_add(client, TEXT(key), 1, NULL, &sum, NULL), KV_OK);
            ck_assert_int_eq(sum, 1);
        }
        assert_status(clientk_queue_ack(mine, jobs, taken), KV_OK);
    }
    for (size_t i = 0; i < 5; i++)
        clientk_job_free(&jobs[i]);
    clientk_queue_close(mine);
    return NULL;
}

START_TEST(a_crowd_does_each_job_once)
{
    pthread_t threads[WORKERS + PRODUCERS];
    for (uintptr_t i = 0; i < WORKERS + PRODUCERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, i < WORKERS ? consume : produce,
                                        (void *)i), /* NOLINT(performance-no-int-to-ptr) */
                         0);
    for (size_t i = 0; i < WORKERS + PRODUCERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    size_t count = 0;
    assert_status(clientk_scan(client, TEXT("did:"), true, NULL, 0, count_entry, &count), KV_OK);
    ck_assert_uint_eq(count, PRODUCERS * JOBS_OF_EACH);
    struct clientk_queue *crowd = must_open_queue(client, "crowd", LONG_MS);
    struct clientk_queue_lengths lengths;
    assert_status(clientk_queue_length(crowd, &lengths), KV_OK);
    ck_assert_uint_eq(lengths.ready + lengths.leased + lengths.later + lengths.dead, 0);
    ck_assert_uint_eq(entries_of("crowd:job:") + entries_of("crowd:away:"), 0);
    if (entries_of("crowd:outside") ==
        0) /* else references stay until the leases would have ended */
        ck_assert_uint_eq(
            entries_of("crowd:due:") + entries_of("crowd:time:") + entries_of("crowd:tree"), 0);
    clientk_queue_close(crowd);
}
END_TEST

TEST_SUITE(clientk_queue)
{
    TCase *tests = tcase_create("queue");
    served_case_add_client(tests);
    tcase_add_checked_fixture(tests, open_queue, close_queue);
    tcase_add_test(tests, jobs_come_in_the_order_in_which_they_were_put);
    tcase_add_test(tests, many_are_put_and_taken_together);
    tcase_add_test(tests, a_higher_priority_comes_first);
    tcase_add_test(tests, a_lease_that_ends_gives_the_job_to_the_next_worker);
    tcase_add_test(tests, who_never_acknowledges_makes_a_dead_letter);
    tcase_add_test(tests, what_failed_is_tried_again_and_then_dead);
    tcase_add_test(tests, what_is_released_keeps_its_place);
    tcase_add_test(tests, delayed_jobs_come_when_they_are_due);
    tcase_add_test(tests, many_delayed_jobs_come_once_each);
    tcase_add_test(tests, slow_jobs_hold_nobody_up);
    tcase_add_test(tests, jobs_of_dead_workers_are_ready);
    tcase_add_test(tests, a_single_slow_job_keeps_no_head);
    tcase_add_test(tests, large_payloads_stand_apart);
    tcase_add_test(tests, who_waits_is_woken);
    tcase_add_test(tests, receipts_settle_jobs_of_others);
    tcase_add_test(tests, impossible_arguments_are_refused);
    tcase_add_test(tests, what_makes_no_sense_is_told_or_passed_over);
    tcase_add_test(tests, tails_without_jobs_are_told);
    tcase_add_test(tests, dead_letters_that_have_left_are_not_passed_again);
    tcase_add_test(tests, what_cannot_be_read_becomes_one_dead_letter);
    tcase_add_test(tests, a_tree_full_of_nothing_ends_a_look);
    tcase_add_test(tests, a_full_moment_is_followed_by_the_next);
    tcase_add_test(tests, a_crowd_does_each_job_once);
    suite_add_tcase(suite, tests);
}
