/* What the lecturer looks at beside check.c. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "network.h"

static void run_resends(void)
{
    char value[KV_TEXT_BYTES], text[KV_TEXT_BYTES];
    uint64_t version = 0;
    network_begin(true);
    EXPLORE_CHECK(clerk_get("a", value, &version) == ANSWER_NO_KEY, "a key is there at once");
    version = 0;
    for (int i = 1; i <= 4; i++) {
        network.executions = network.calls = 0;
        snprintf(text, sizeof text, "%d", i);
        enum kv_answer answer = clerk_put("a", text, version);
        int executed = network.executions, sent = network.calls;
        EXPLORE_CHECK(executed == 1, "a put with the right version was executed %d times",
                      executed);
        EXPLORE_CHECK(answer == ANSWER_OK || (answer == ANSWER_MAYBE && sent > 1),
                      "a put that was executed, and sent %d times, has answer %d", sent, answer);
        network.executions = network.calls = 0;
        answer = clerk_put("a", "x", version + 1000);
        sent = network.calls;
        EXPLORE_CHECK(answer == ANSWER_VERSION || (answer == ANSWER_MAYBE && sent > 1),
                      "a put with a wrong version, sent %d times, has answer %d", sent, answer);
        EXPLORE_CHECK(clerk_get("a", value, &version) == ANSWER_OK && strcmp(value, text) == 0,
                      "a get gives '%s', not '%s'", value, text);
    }
    kv_server_destroy(&network.server);
}

EXPLORE_HARNESS(resends) = {
    .name = "resends",
    .invariant = "what was lost is sent again, and what is not known is told",
    .run = run_resends,
    .stores_in_order = true,
};

static _Atomic int inside, turns;

static void take_turns(void *number)
{
    char owner[KV_TEXT_BYTES];
    snprintf(owner, sizeof owner, "client %d", (int)(intptr_t)number);
    for (int i = 0; i < 2; i++) {
        lock_acquire("lock", owner);
        int now = ++inside;
        EXPLORE_CHECK(now == 1, "%d hold the lock at once", now);
        explore_sleep_ms(1);
        inside--;
        turns++;
        lock_release("lock", owner);
    }
}

static void run_lock(bool loses)
{
    network_begin(loses);
    inside = turns = 0;
    for (intptr_t i = 0; i < 3; i++)
        explore_thread(0, take_turns, (void *)i);
    explore_wait_for_threads();
    EXPLORE_CHECK(turns == 6, "of 6 turns there were %d", turns);
    kv_server_destroy(&network.server);
}

static void run_excludes(void)
{
    run_lock(false);
}

EXPLORE_HARNESS(excludes) = {
    .name = "excludes",
    .invariant = "one at a time has the lock, and everybody gets it",
    .run = run_excludes,
    .stores_in_order = true,
};

static void run_excludes_lossy(void)
{
    run_lock(true);
}

EXPLORE_HARNESS(excludes_lossy) = {
    .name = "excludes_lossy",
    .invariant = "the same where requests and replies are lost",
    .run = run_excludes_lossy,
    .stores_in_order = true,
};

static void hold_two_seconds(void *unused)
{
    (void)unused;
    lock_acquire("lock", "one");
    explore_sleep_ms(2000);
    lock_release("lock", "one");
}

/* A network of a millisecond a call and a pause: a thousand questions, or two, are enough. */
static void run_pauses(void)
{
    network_begin(false);
    explore_thread(0, hold_two_seconds, NULL);
    explore_sleep_ms(10);
    lock_acquire("lock", "two");
    lock_release("lock", "two");
    explore_wait_for_threads();
    EXPLORE_CHECK(!explore_keeps_time() || network.calls <= 5000,
                  "a lock that is held for two seconds is asked for %d times", network.calls);
    kv_server_destroy(&network.server);
}

EXPLORE_HARNESS(pauses) = {
    .name = "pauses",
    .invariant = "who waits for the lock pauses between its questions",
    .run = run_pauses,
    .stores_in_order = true,
};
