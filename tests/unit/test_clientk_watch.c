/* Changes as a program with an event loop takes them: it waits for the descriptor, then calls until
 * there is nothing more. */
#include <poll.h>
#include <signal.h>

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

TEST_SUITE(clientk_watch)
{
    TCase *tcase = tcase_create("watch");
    served_case_add_daemon_and_client(tcase);
    tcase_add_test(tcase, the_descriptor_tells_of_changes_from_now_on);
    tcase_add_test(tcase, the_descriptor_tells_of_changes_since_a_position);
    tcase_add_test(tcase, a_change_after_a_long_silence_is_told);
    suite_add_tcase(suite, tcase);
}
