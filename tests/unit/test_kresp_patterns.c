/* What the patterns of one user cost the messages of all. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/channels/redis_subscriber.h"
#include "tests/support/test_suite.h"

static struct redis_channels channels = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct redis_channel_share greedy_share, other_share;
static struct buffer_owner greedy_owner, other_owner;
static struct redis_subscriber greedy, other;

static void begin(void)
{
    redis_subscriber_init(&greedy, &channels, &greedy_share, &greedy_owner);
    redis_subscriber_init(&other, &channels, &other_share, &other_owner);
}

static void end(void)
{
    redis_subscriber_free(&greedy);
    redis_subscriber_free(&other);
    ck_assert_ptr_null(channels.shares);
    ck_assert_ptr_null(greedy_share.tree);
    ck_assert_uint_eq(greedy_share.patterns + other_share.patterns, 0);
    ck_assert_uint_eq(redis_channels_count(&channels, REDIS_PATTERN), 0);
}

static void want(struct redis_subscriber *subscriber, const char *pattern, bool wanted)
{
    ck_assert_int_eq(
        redis_subscriber_want(subscriber, REDIS_PATTERN, kv_slice_from_string(pattern), wanted),
        REDIS_WISH_TAKEN);
    redis_subscriber_settle(subscriber, 2);
}

static uint64_t publish_to(const char *channel)
{
    struct kv_slice name = kv_slice_from_string(channel);
    uint64_t receivers = redis_channels_receivers(&channels, name);
    ck_assert_uint_eq(redis_channels_publish(&channels, name, kv_slice_from_string("x")),
                      receivers);
    return receivers;
}

START_TEST(slow_patterns_cost_their_user_alone)
{
    char slow[4096];
    want(&greedy, "new*", true);
    want(&other, "new*", true);
    ck_assert_uint_eq(publish_to("news"), 2);
    for (unsigned i = 0; i < 100; i++) {
        memset(slow, 1, sizeof slow);
        snprintf(slow + 4000, sizeof slow - 4000, "]%u*", i);
        slow[0] = '[';
        want(&greedy, slow, true);
    }
    ck_assert_uint_eq(publish_to("news"), 1); /* the steps are used up before the oldest pattern */
    want(&greedy, "n*", true);
    ck_assert_uint_eq(publish_to("news"), 2);
    want(&other, "ne*", true);
    ck_assert_uint_eq(publish_to("news"), 3);
}
END_TEST

START_TEST(literal_beginnings_are_compared_first)
{
    char pattern[64];
    want(&greedy, "new*", true);
    for (unsigned i = 1; i < REDIS_PATTERNS_OF_USER; i++) {
        snprintf(pattern, sizeof pattern, "user:%u:*", i);
        want(&greedy, pattern, true);
    }
    ck_assert_uint_eq(publish_to("news"), 1);
    ck_assert_uint_eq(publish_to("user:77:name"), 1);
    ck_assert_int_eq(
        redis_subscriber_want(&greedy, REDIS_PATTERN, kv_slice_from_string("one more"), true),
        REDIS_WISH_TOO_MANY);
}
END_TEST

START_TEST(users_have_the_same_pattern_apart)
{
    want(&greedy, "a*", true);
    want(&other, "a*", true);
    want(&other, "b*", true);
    ck_assert_uint_eq(redis_channels_count(&channels, REDIS_PATTERN), 3);
    want(&greedy, "a*", false);
    ck_assert_uint_eq(publish_to("a"), 1);
    ck_assert_uint_eq(publish_to("b"), 1);
    want(&greedy, "a*", true);
    want(&other, "a*", false);
    ck_assert_uint_eq(publish_to("a"), 1);
}
END_TEST

/* A client that waits is rung once, and one that is gone is not. */
static unsigned wakes;

static void note_wake(void *context)
{
    (void)context;
    wakes++;
}

START_TEST(clients_who_wait_are_rung)
{
    struct redis_mailbox mailbox = {.wake = note_wake};
    greedy.inbox.mailbox = other.inbox.mailbox = &mailbox;
    redis_subscriber_await(&greedy);
    redis_subscriber_await(&other);
    redis_subscriber_await(&other);
    redis_subscriber_free(&greedy);
    redis_channels_wake(&channels);
    ck_assert_uint_eq(wakes, 1);
    ck_assert_ptr_eq(mailbox.first, &other.inbox);
    ck_assert_ptr_null(other.inbox.next_in_mailbox);
    ck_assert_ptr_null(channels.waiting);
    redis_subscriber_free(&other);
    begin();
}
END_TEST

TEST_SUITE(kresp_patterns)
{
    TCase *patterns = tcase_create("patterns");
    tcase_add_checked_fixture(patterns, begin, end);
    tcase_add_test(patterns, slow_patterns_cost_their_user_alone);
    tcase_add_test(patterns, literal_beginnings_are_compared_first);
    tcase_add_test(patterns, users_have_the_same_pattern_apart);
    tcase_add_test(patterns, clients_who_wait_are_rung);
    suite_add_tcase(suite, patterns);
}
