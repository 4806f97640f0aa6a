/* Answers that wait for a sync: the commit queue, over a store whose disk loses what is not synced,
 * and whose syncs may fail. */
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explore_daemon.h"
#include "tests/explore/machine.h"

#define REQUESTS_EACH 4u

static void put(void *argument)
{
    struct daemon_client *client = explore_client((unsigned)(uintptr_t)argument);
    if (explore_client_open(client) == CLIENT_JOINED) {
        for (unsigned i = 0; i < REQUESTS_EACH; i++)
            if (!explore_client_send(client))
                break;
        while (client->in_flight > 0)
            if (!explore_client_take(client))
                break;
        explore_client_say_bye(client);
    }
    explore_client_close(client);
    explore_exit();
}

static void look_for(struct kvstore *store, unsigned client, unsigned request)
{
    struct explored_put put = explore_put_of(client, request);
    for (unsigned i = 0; i < KEYS_OF_PUT; i++) {
        char value[16];
        struct kvstore_entry entry;
        struct kv_slice key = kv_slice_from_string(put.keys[i]);
        enum kv_status status = kvstore_get(store, key, value, sizeof value, &entry);
        EXPLORE_CHECK(status == KV_OK && kv_slice_equal(kv_slice(value, entry.value_bytes), key),
                      "%s was answered, and is not on disk: status %d", put.keys[i], status);
    }
}

/* After a cut of the power. */
static void look_for_all(uint32_t datafiles)
{
    const struct kvstore_options options = {.datafiles = datafiles};
    const struct machine_faults none = {0};
    struct kvstore *store = NULL;
    struct kv_error error = {.text = ""};
    machine_bury(DAEMON);
    machine_cut_power();
    machine_set_faults(&none);
    explore_forget_statics();
    if (kvstore_open(EXPLORED_STORE, &options, &store, &error) != KV_OK)
        explore_fail("the store cannot be opened: %s", error.text);
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
        for (unsigned j = 0; j < CLIENT_REQUESTS; j++) {
            const struct request_fate *fate = &explore_client(i)->fates[j];
            if (fate->answered > 0 && fate->status == KV_OK)
                look_for(store, i, j);
        }
    kvstore_close(store, &error);
    machine_end();
}

static void run_with(uint32_t datafiles)
{
    const struct daemon_plan plan = {.workers = 2, .mode = 0600, .datafiles = datafiles};
    explore_daemon_start(&plan);
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
        explore_thread(FIRST_CLIENT + i, put, (void *)(uintptr_t)i);
    explore_may_kill(DAEMON);
    explore_wait_for_threads();
    explore_quietly(true);
    if (!explore_is_gone(DAEMON))
        explore_kill(DAEMON);
    look_for_all(datafiles);
}

static void run(void)
{
    run_with(1);
}

static void run_together(void)
{
    run_with(2);
}

EXPLORE_HARNESS(explore_commit) = {
    .name = "commit",
    .invariant = "a PUT is answered, and not before it is on disk, or told that it is not",
    .run = run,
    .most_in_a_process = 100,
};

EXPLORE_HARNESS(explore_commit_together) = {
    .name = "commit-together",
    .invariant = "the same with two data files and their commit log",
    .run = run_together,
    .most_in_a_process = 100,
};
