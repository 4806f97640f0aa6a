/* Changes as a program with an event loop takes them: it waits for the descriptor, then calls until
 * there is nothing more. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

/* A change that is there is told long before; what only a timer tells comes after 5 s. */
#define SOON_MS   2000u
/* Longer than the server waits for a change before it answers without one; longer than the client
 * waits for an answer. */
#define QUIET_MS  11000u
#define FROZEN_MS 16000u

static struct clientk_watch *must_watch(struct clientk *watcher, const char *since)
{
    struct clientk_watch_options options = {.since = since};
    struct clientk_watch *watch = NULL;
    struct kv_error error = {.status = KV_OK};
    enum kv_status status = clientk_watch_open(watcher, &options, &watch, &error);
    ck_assert_msg(status == KV_OK, "%s", error.text);
    return watch;
}

/* Takes all that is there. Whether the key was among it. */
static bool takes(struct clientk_watch *watch, const char *key)
{
    struct clientk_change change;
    enum kv_status status;
    bool found = false;
    while ((status = clientk_watch_next(watch, 0, &change)) == KV_OK)
        found |= kv_slice_equal(change.key, TEXT(key));
    assert_status(status, KV_TIMEOUT);
    return found;
}

/* Whether a change of the key is told within so many milliseconds. */
static bool is_told(struct clientk_watch *watch, const char *key, uint64_t within_ms)
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + within_ms;
    struct pollfd ready = {.fd = clientk_watch_fd(watch), .events = POLLIN};
    for (;;) {
        uint64_t now_ms = clock_monotonic_coarse_ms();
        if (now_ms >= until_ms)
            return false;
        if (poll(&ready, 1, (int)(until_ms - now_ms)) > 0 && takes(watch, key))
            return true;
    }
}

START_TEST(the_descriptor_tells_of_changes_from_now_on)
{
    struct clientk_watch *watch = must_watch(client, NULL);
    must_put_text(client, "first", "1");
    ck_assert(is_told(watch, "first", SOON_MS));
    must_put_text(client, "second", "2");
    ck_assert(is_told(watch, "second", SOON_MS));
    clientk_watch_close(watch);
}
END_TEST

START_TEST(the_descriptor_tells_of_changes_since_a_position)
{
    struct clientk_watch *watch = must_watch(client, NULL);
    struct clientk_value position = {.size = 0};
    assert_status(clientk_watch_position(watch, &position), KV_OK);
    clientk_watch_close(watch);
    must_put_text(client, "kept", "1");
    watch = must_watch(client, position.data);
    clientk_value_free(&position);
    ck_assert(is_told(watch, "kept", SOON_MS));
    clientk_watch_close(watch);
}
END_TEST

/* Who is told reads all entries anew, and asks on: nothing that was put after the answer may be
 * missing. */
START_TEST(what_comes_after_missed_changes_is_told)
{
    struct clientk_watch *watch = must_watch(
        client,
        "w1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    struct clientk_change change;
    assert_status(clientk_watch_next(watch, (int)FROZEN_MS, &change), KV_MISSED);
    must_put_text(client, "after", "1");
    assert_status(clientk_watch_next(watch, (int)FROZEN_MS, &change), KV_OK);
    ck_assert(kv_slice_equal(change.key, TEXT("after")));
    clientk_watch_close(watch);
}
END_TEST

/* What is under way is answered without a change, or, by a server that stands still, not at all. */
START_TEST(a_change_after_a_long_silence_is_told)
{
    struct live_server still;
    live_server_start(&still, NULL, NULL);
    struct clientk_options options = {.queue = still.queue};
    struct clientk *other = must_connect_with(&options);
    struct clientk_watch *quiet = must_watch(client, NULL), *unanswered = must_watch(other, NULL);
    live_server_signal(&still, SIGSTOP);
    ck_assert(!is_told(quiet, "late", QUIET_MS));
    ck_assert(!is_told(unanswered, "late", FROZEN_MS - QUIET_MS));
    live_server_signal(&still, SIGCONT);
    must_put_text(client, "late", "1");
    ck_assert(is_told(quiet, "late", SOON_MS));
    must_put_text(other, "late", "1");
    ck_assert(is_told(unanswered, "late", SOON_MS));
    clientk_watch_close(unanswered);
    clientk_watch_close(quiet);
    clientk_close(other);
    live_server_remove(&still); /* before that of the case, whose pipe its janitor has */
}
END_TEST

/* Transactions --------------------------------------------------------------------------------- */

#define KEYS 12u

/* Puts values of `bytes` bytes to the keys PREFIX0, PREFIX1, ... together. */
static void put_together(const char *prefix, size_t count, size_t bytes)
{
    static char keys[KEYS][16], value[80000];
    struct clientk_operation puts[KEYS] = {{0}};
    struct clientk_result results[KEYS] = {{0}};
    memset(value, 'v', bytes);
    for (size_t i = 0; i < count; i++) {
        snprintf(keys[i], sizeof keys[i], "%s%zu", prefix, i);
        puts[i] = (struct clientk_operation){
            .opcode = CLIENTK_PUT, .key = TEXT(keys[i]), .value = kv_slice(value, bytes)};
    }
    struct clientk_transaction transaction = {.then = puts, .then_count = count};
    assert_status(clientk_transact(client, &transaction, results, NULL), KV_OK);
}

/* What was told of one transaction. */
struct told {
    unsigned changes, parts;
    struct clientk_change_transaction last;
    char keys[200]; /* one behind the other */
};

/* Takes so many changes, all of one transaction. */
static struct told take(struct clientk_watch *watch, unsigned count)
{
    struct told told = {0};
    while (told.changes < count) {
        struct clientk_change change;
        struct clientk_change_transaction of;
        assert_status(clientk_watch_next(watch, 20000, &change), KV_OK);
        assert_status(clientk_watch_transaction(watch, &of), KV_OK);
        if (told.changes > 0) {
            ck_assert_uint_eq(of.number, told.last.number);
            ck_assert_uint_eq(of.parts, told.last.parts);
        }
        told.last = of;
        told.changes++;
        told.parts += !of.goes_on;
        strncat(told.keys, change.key.data, change.key.size);
    }
    return told;
}

static struct clientk_watch *must_watch_prefix(const char *prefix, bool keys_only)
{
    struct clientk_watch_options options = {.prefix = TEXT(prefix), .keys_only = keys_only};
    struct clientk_watch *watch = NULL;
    assert_status(clientk_watch_open(client, &options, &watch, NULL), KV_OK);
    return watch;
}

START_TEST(what_belongs_together_is_told)
{
    struct clientk_watch *watch = must_watch(client, NULL);
    struct clientk_change_transaction of = {.parts = 1};
    assert_status(clientk_watch_transaction(watch, &of), KV_USAGE);
    assert_status(clientk_watch_transaction(NULL, &of), KV_USAGE);
    ck_assert_uint_eq(of.parts, 0);
    must_put_text(client, "alone", "1");
    struct told told = take(watch, 1);
    ck_assert(told.last.number == 0 && told.last.parts == 0 && !told.last.goes_on);
    put_together("one", 1, 5);
    told = take(watch, 1);
    ck_assert(told.last.number == 0 && told.last.parts == 0 && !told.last.goes_on);
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) { /* over all of the four data files, or nearly */
        put_together("k", KEYS, 5);
        told = take(watch, KEYS);
        ck_assert_uint_gt(told.last.number, before);
        ck_assert_uint_eq(told.last.parts, told.parts);
        ck_assert_uint_ge(told.parts, 2);
        ck_assert(!told.last.goes_on);
        before = told.last.number;
        must_put_text(client, "between", "1");
        told = take(watch, 1);
        ck_assert(told.last.number == 0 && !told.last.goes_on);
    }
    clientk_watch_close(watch);
}
END_TEST

/* Also when its position is one within a part, and the server was killed meanwhile. */
START_TEST(who_goes_on_within_a_transaction_gets_the_rest)
{
    struct clientk_watch *watch = must_watch(client, NULL);
    struct clientk_value position = {.size = 0};
    put_together("k", KEYS, 5);
    unsigned ends = 0;
    for (unsigned i = 0; i < KEYS; i++) {
        struct told told = take(watch, 1);
        ends += !told.last.goes_on;
        assert_status(clientk_watch_position(watch, &position), KV_OK);
        clientk_watch_close(watch);
        if (i == KEYS / 2) {
            live_server_signal(&server, SIGKILL);
            live_server_restart(&server, "-d", "4");
        }
        watch = must_watch(client, position.data);
    }
    ck_assert(!is_told(watch, "none", 100));
    ck_assert_uint_ge(ends, 2);
    clientk_value_free(&position);
    clientk_watch_close(watch);
}
END_TEST

START_TEST(a_prefix_leaves_the_ends_where_they_are)
{
    struct clientk_watch *all = must_watch(client, NULL);
    for (unsigned i = 0; i < KEYS; i++) {
        char prefix[8];
        snprintf(prefix, sizeof prefix, "p%u", i);
        struct clientk_watch *some = must_watch_prefix(prefix, i % 2 == 1);
        put_together("p", KEYS - 2, 5);
        struct told told = take(all, KEYS - 2);
        ck_assert_uint_eq(told.parts, told.last.parts);
        if (i < KEYS - 2) { /* one key, and nothing goes on */
            struct told one = take(some, 1);
            ck_assert_uint_eq(one.last.number, told.last.number);
            ck_assert_uint_eq(one.last.parts, told.last.parts);
            ck_assert(!one.last.goes_on);
        }
        clientk_watch_close(some);
    }
    clientk_watch_close(all);
}
END_TEST

/* Its changes come one behind the other all the same. */
START_TEST(a_part_larger_than_a_page_comes_in_several)
{
    struct clientk_watch *watch = must_watch(client, NULL);
    put_together("small", 2, 100);
    struct told told = take(watch, 2); /* else those of "large" come between */
    put_together("large", KEYS, 80000);
    put_together("last", 2, 100);
    /* Others may come between the parts of these. */
    unsigned changes = 0, ends = 0;
    uint64_t number = 0;
    bool goes_on = false;
    while (changes < KEYS) {
        struct clientk_change change;
        struct clientk_change_transaction of;
        assert_status(clientk_watch_next(watch, 20000, &change), KV_OK);
        assert_status(clientk_watch_transaction(watch, &of), KV_OK);
        bool large = change.key.size > 5 && memcmp(change.key.data, "large", 5) == 0;
        ck_assert(large || !goes_on);
        if (large) {
            ck_assert(number == 0 || of.number == number);
            number = of.number;
            changes++;
            ends += !of.goes_on;
        }
        goes_on = large && of.goes_on;
        told.last = large ? of : told.last;
    }
    ck_assert_uint_eq(ends, told.last.parts);
    clientk_watch_close(watch);
}
END_TEST

static void start_with_files(void)
{
    live_server_start(&server, "-d", "4");
}

static void stop(void)
{
    live_server_remove(&server);
}

static void open_client(void)
{
    client = must_connect(server.queue);
}

static void close_client(void)
{
    clientk_close(client);
}

TEST_SUITE(clientk_watch)
{
    TCase *tcase = tcase_create("watch");
    served_case_add_daemon_and_client(tcase);
    tcase_add_test(tcase, the_descriptor_tells_of_changes_from_now_on);
    tcase_add_test(tcase, the_descriptor_tells_of_changes_since_a_position);
    tcase_add_test(tcase, what_comes_after_missed_changes_is_told);
    tcase_add_test(tcase, a_change_after_a_long_silence_is_told);
    suite_add_tcase(suite, tcase);

    TCase *transactions = tcase_create("transactions");
    tcase_set_timeout(transactions, 120);
    tcase_add_checked_fixture(transactions, start_with_files, stop);
    tcase_add_checked_fixture(transactions, open_client, close_client);
    tcase_add_test(transactions, what_belongs_together_is_told);
    tcase_add_test(transactions, who_goes_on_within_a_transaction_gets_the_rest);
    tcase_add_test(transactions, a_prefix_leaves_the_ends_where_they_are);
    tcase_add_test(transactions, a_part_larger_than_a_page_comes_in_several);
    suite_add_tcase(suite, transactions);
}
