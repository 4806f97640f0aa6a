/* What a client is told of changed keys (CLIENT TRACKING): behind the reply that it may have kept,
 * and in bounded memory. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/session/redis_batch.h"
#include "bridges/kresp/session/redis_command.h"
#include "tests/support/test_suite.h"

static struct redis_service service;
static struct redis_user user;
static struct redis_session session;

static void begin_session(void)
{
    service = (struct redis_service){0};
    user = (struct redis_user){0};
    service.tracking.channels = &service.channels;
    session = (struct redis_session){
        .service = &service, .user = &user, .authenticated = true, .reply.protocol = 3};
    redis_subscriber_init(&session.subscriber, &service.channels, &user.channels, &user.buffers);
    key_tracker_init(&session.tracker, &service.tracking, &session.subscriber.inbox, &user.tracking,
                     &user.buffers);
    redis_command_init();
}

static void end_session(void)
{
    redis_session_free(&session);
    struct tracking_counts counts = tracking_table_count(&service.tracking);
    ck_assert_uint_eq(counts.clients + counts.keys + counts.reads + counts.prefixes, 0);
    ck_assert_uint_eq(user.tracking.reads + user.tracking.prefixes, 0);
    ck_assert_uint_eq(user.buffers.bytes, 0);
    byte_buffer_set_budget(SIZE_MAX, false);
}

static void remember(const char *key)
{
    redis_session_remember(&session, kv_slice_from_string(key));
}

static void tell(const char *key, uint64_t version)
{
    tracking_table_tell(&service.tracking, kv_slice_from_string(key), version);
}

/* What has been replied and told since the last call has to be this. */
static void expect_replies(const char *expected)
{
    key_tracker_take(&session.tracker, &session.reply);
    struct kv_slice bytes = byte_buffer_slice(&session.reply.bytes);
    ck_assert_uint_eq(bytes.size, strlen(expected));
    ck_assert(bytes.size == 0 || memcmp(bytes.data, expected, bytes.size) == 0);
    byte_buffer_free(&session.reply.bytes);
}

#define TOLD       ">2\r\n$10\r\ninvalidate\r\n"
#define EVERYTHING TOLD "_\r\n"

/* A GET that is executed in a batch; k changes when it is read and not yet answered. */
START_TEST(a_change_behind_the_read_is_told_behind_the_reply)
{
    struct kv_slice arguments[] = {kv_slice_from_string("get"), kv_slice_from_string("k")};
    char value[] = "old";
    struct redis_batch *batch = redis_batch_new(&service, NULL);
    struct redis_job job = {
        .session = &session, .memory = &batch->memory, .arguments = arguments, .count = 2};
    ck_assert(key_tracker_start(&session.tracker, 0));
    redis_command_find(&job);
    session.unfinished = redis_job_keep(&job);
    redis_batch_begin(batch, UINT64_MAX);
    redis_batch_take(batch, &session);
    ck_assert_uint_eq(batch->memory.operation_count, 1);
    ck_assert(batch_memory_make_results(&batch->memory));
    struct clientk_result *result = &batch->memory.results[0];
    struct clientk_value memory = result->value;
    *result = (struct clientk_result){.status = KV_OK, .value = {.data = value, .size = 3}};
    batch->is_executed = true;
    tell("k", 7);
    ck_assert(redis_batch_run(batch));
    expect_replies("$3\r\nold\r\n" TOLD "*1\r\n$1\r\nk\r\n");
    result->value = memory;
    redis_batch_free(batch);
}
END_TEST

START_TEST(a_key_is_told_once)
{
    ck_assert(key_tracker_start(&session.tracker, 0));
    remember("a");
    remember("a");
    remember("b");
    ck_assert_uint_eq(tracking_table_count(&service.tracking).reads, 2);
    tell("a", 1);
    tell("a", 2);
    tell("c", 3);
    expect_replies(TOLD "*1\r\n$1\r\na\r\n");
    tell("a", 4);
    expect_replies("");
    remember("a");
    tell("a", 5);
    tell("b", 6);
    expect_replies(TOLD "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}
END_TEST

START_TEST(own_writes_are_not_told)
{
    ck_assert(key_tracker_start(&session.tracker, TRACKING_NOLOOP));
    key_tracker_note_write(&session.tracker, kv_slice_from_string("a"), 5);
    remember("a");
    remember("b");
    tell("a", 5);
    tell("b", 5);
    expect_replies(TOLD "*1\r\n$1\r\nb\r\n");
    remember("a");
    tell("a", 6);
    key_tracker_note_write(&session.tracker, kv_slice_from_string("a"), 7);
    expect_replies(TOLD "*1\r\n$1\r\na\r\n");
}
END_TEST

START_TEST(who_is_not_served_is_told_everything)
{
    char key[4096];
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    ck_assert(key_tracker_start(&session.tracker, TRACKING_BROADCAST));
    ck_assert(tracking_table_add_prefix(&service.tracking, &session.tracker.client,
                                        kv_slice_from_string("k")));
    for (unsigned i = 0; i < 300; i++) {
        tell(key, 1);
        ck_assert_uint_lt(user.buffers.bytes, 3 * TRACKING_UNTOLD_BYTES);
    }
    ck_assert_uint_lt(user.buffers.bytes, 1024);
    expect_replies(EVERYTHING);
    tell("k2", 2);
    tell("other", 2);
    expect_replies(TOLD "*1\r\n$2\r\nk2\r\n");
}
END_TEST

START_TEST(without_memory_everything_is_told)
{
    ck_assert(key_tracker_start(&session.tracker, 0));
    byte_buffer_set_budget(0, false);
    remember("a");
    ck_assert_uint_eq(tracking_table_count(&service.tracking).reads, 0);
    byte_buffer_set_budget(SIZE_MAX, false);
    expect_replies(EVERYTHING);
    remember("b");
    byte_buffer_set_budget(0, false);
    tell("b", 1);
    byte_buffer_set_budget(SIZE_MAX, false);
    expect_replies(EVERYTHING);
}
END_TEST

/* The newest read of a user takes the place of the oldest, whichever client's that is. */
START_TEST(what_is_remembered_of_a_user_has_a_bound)
{
    char key[64];
    struct redis_session other = session;
    redis_subscriber_init(&other.subscriber, &service.channels, &user.channels, &user.buffers);
    key_tracker_init(&other.tracker, &service.tracking, &other.subscriber.inbox, &user.tracking,
                     &user.buffers);
    ck_assert(key_tracker_start(&session.tracker, 0));
    ck_assert(key_tracker_start(&other.tracker, 0));
    byte_buffer_set_budget(1024 * 1024, false);
    remember("oldest");
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key:%u", i);
        redis_session_remember(&other, kv_slice_from_string(key));
    }
    ck_assert_uint_lt(byte_buffer_total(), 800 * 1024);
    ck_assert_uint_gt(user.tracking.reads, TRACKING_LEAST_READS);
    expect_replies(TOLD "*1\r\n$6\r\noldest\r\n");
    tell(key, 1);
    key_tracker_take(&other.tracker, &other.reply);
    struct kv_slice told = byte_buffer_slice(&other.reply.bytes);
    ck_assert_ptr_nonnull(memmem(told.data, told.size, "\r\nkey:4999\r\n", 12));
    byte_buffer_free(&other.reply.bytes);
    redis_session_free(&other);
}
END_TEST

START_TEST(keys_of_a_user_have_a_bound)
{
    char key[32];
    ck_assert(key_tracker_start(&session.tracker, 0));
    for (unsigned i = 0; i < TRACKING_READS_OF_USER + 10; i++) {
        snprintf(key, sizeof key, "%u", i);
        remember(key);
    }
    ck_assert_uint_eq(user.tracking.reads, TRACKING_READS_OF_USER);
    ck_assert_uint_eq(tracking_table_count(&service.tracking).keys, user.tracking.reads);
}
END_TEST

#define LEFT_KEYS 50000

static atomic_bool has_left;

static void *tell_of_keys(void *unused)
{
    char key[32];
    (void)unused;
    for (unsigned i = LEFT_KEYS; i-- > 0 && !atomic_load(&has_left);) {
        snprintf(key, sizeof key, "%u", i);
        tell(key, 1);
    }
    return NULL;
}

/* While its reads are forgotten, others find those that are left: nothing of that stays. */
START_TEST(who_leaves_is_told_nothing_more)
{
    for (int round = 0; round < 5; round++) {
        char key[32];
        pthread_t teller;
        atomic_store(&has_left, false);
        ck_assert(key_tracker_start(&session.tracker, 0));
        for (unsigned i = 0; i < LEFT_KEYS; i++) {
            snprintf(key, sizeof key, "%u", i);
            remember(key);
        }
        ck_assert_int_eq(pthread_create(&teller, NULL, tell_of_keys, NULL), 0);
        key_tracker_stop(&session.tracker);
        atomic_store(&has_left, true);
        pthread_join(teller, NULL);
        ck_assert_uint_eq(byte_buffer_size(&session.tracker.client.untold), 0);
        ck_assert_uint_eq(user.buffers.bytes, 0);
    }
}
END_TEST

START_TEST(resp2_cannot_be_told)
{
    ck_assert(key_tracker_start(&session.tracker, 0));
    remember("a");
    session.reply.protocol = 2;
    tell("a", 1);
    expect_replies("");
    session.reply.protocol = 3;
    expect_replies("");
}
END_TEST

START_TEST(prefixes_of_a_user_have_a_bound)
{
    char prefix[32];
    ck_assert(key_tracker_start(&session.tracker, TRACKING_BROADCAST));
    for (unsigned i = 0; i <= TRACKING_PREFIXES_OF_USER; i++) {
        snprintf(prefix, sizeof prefix, "%u:", i);
        ck_assert(tracking_table_add_prefix(&service.tracking, &session.tracker.client,
                                            kv_slice_from_string(prefix)) ==
                  (i < TRACKING_PREFIXES_OF_USER));
    }
    key_tracker_stop(&session.tracker);
    ck_assert_uint_eq(user.tracking.prefixes, 0);
}
END_TEST

TEST_SUITE(kresp_tracking)
{
    TCase *tcase = tcase_create("tracking");
    tcase_add_checked_fixture(tcase, begin_session, end_session);
    tcase_add_test(tcase, a_change_behind_the_read_is_told_behind_the_reply);
    tcase_add_test(tcase, a_key_is_told_once);
    tcase_add_test(tcase, own_writes_are_not_told);
    tcase_add_test(tcase, who_is_not_served_is_told_everything);
    tcase_add_test(tcase, without_memory_everything_is_told);
    tcase_add_test(tcase, what_is_remembered_of_a_user_has_a_bound);
    tcase_add_test(tcase, keys_of_a_user_have_a_bound);
    tcase_add_test(tcase, who_leaves_is_told_nothing_more);
    tcase_add_test(tcase, resp2_cannot_be_told);
    tcase_add_test(tcase, prefixes_of_a_user_have_a_bound);
    suite_add_tcase(suite, tcase);
}
