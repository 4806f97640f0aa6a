/* What server, clerk and lock must do, under schedules that a seed decides
 * (tests/explore/explore.h). */
#include <stdio.h>
#include <stdlib.h>

#include "network.h"

struct network network;

void network_begin(bool loses)
{
    bool before = explore_quietly(true);
    kv_server_init(&network.server);
    network.loses = loses;
    network.calls = network.executions = 0;
    explore_quietly(before);
}

bool network_call(const struct kv_request *request, struct kv_reply *reply)
{
    unsigned fate = network.loses ? explore_random(4) : 3;
    network.calls++;
    if (fate == 0)
        return false;
    kv_server_execute(&network.server, request, reply);
    network.executions += request->is_put && reply->answer == ANSWER_OK;
    return fate != 1;
}

void network_pause(void)
{
    explore_sleep_ms(1);
}

static enum kv_answer put(const char *key, const char *value, uint64_t version)
{
    struct kv_request request = {.is_put = true, .version = version};
    struct kv_reply reply;
    snprintf(request.key, sizeof request.key, "%s", key);
    snprintf(request.value, sizeof request.value, "%s", value);
    kv_server_execute(&network.server, &request, &reply);
    return reply.answer;
}

static struct kv_reply get(const char *key)
{
    struct kv_request request = {.is_put = false};
    struct kv_reply reply;
    snprintf(request.key, sizeof request.key, "%s", key);
    kv_server_execute(&network.server, &request, &reply);
    return reply;
}

static void run_versions(void)
{
    network_begin(false);
    EXPLORE_CHECK(get("a").answer == ANSWER_NO_KEY, "a key that was never put is there");
    EXPLORE_CHECK(put("a", "x", 7) == ANSWER_NO_KEY, "a key that is not there has version 7");
    EXPLORE_CHECK(put("a", "1", 0) == ANSWER_OK, "a new key cannot be put with version 0");
    struct kv_reply first = get("a");
    EXPLORE_CHECK(first.answer == ANSWER_OK && strcmp(first.value, "1") == 0 && first.version > 0,
                  "what was put is not there");
    EXPLORE_CHECK(put("a", "x", 0) == ANSWER_VERSION, "a key is put as new, though it is there");
    EXPLORE_CHECK(put("a", "2", first.version) == ANSWER_OK, "a put with the right version fails");
    EXPLORE_CHECK(put("a", "x", first.version) == ANSWER_VERSION, "an old version is taken");
    struct kv_reply second = get("a");
    EXPLORE_CHECK(strcmp(second.value, "2") == 0 && second.version > first.version,
                  "the version has not grown");
    EXPLORE_CHECK(put("b", "3", 0) == ANSWER_OK && strcmp(get("b").value, "3") == 0 &&
                      strcmp(get("a").value, "2") == 0,
                  "two keys are mixed up");
    kv_server_destroy(&network.server);
}

EXPLORE_HARNESS(versions) = {
    .name = "versions",
    .invariant = "a put is executed if it names the version that the key has",
    .run = run_versions,
    .stores_in_order = true,
};

static _Atomic int added;

static void add_two(void *unused)
{
    (void)unused;
    /* Who names an old version does so because another's put was executed meanwhile: of the others
     * there are four. */
    int tries = 0;
    for (int done = 0; done < 2;) {
        EXPLORE_CHECK(tries++ < 2 + 4, "no put was executed, of several that named the version");
        struct kv_reply now = get("sum");
        char value[KV_TEXT_BYTES];
        int sum = now.answer == ANSWER_OK ? atoi(now.value) : 0;
        snprintf(value, sizeof value, "%d", sum + 1);
        if (put("sum", value, now.answer == ANSWER_OK ? now.version : 0) == ANSWER_OK) {
            added++;
            done++;
        }
    }
}

static void run_at_once(void)
{
    network_begin(false);
    added = 0;
    for (int i = 0; i < 3; i++)
        explore_thread(0, add_two, NULL);
    explore_wait_for_threads();
    EXPLORE_CHECK(atoi(get("sum").value) == added, "of %d that were added the sum is %s",
                  (int)added, get("sum").value);
    kv_server_destroy(&network.server);
}

EXPLORE_HARNESS(at_once) = {
    .name = "at_once",
    .invariant = "of puts that name the same version one is executed",
    .run = run_at_once,
    .stores_in_order = true,
};
