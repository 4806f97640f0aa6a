/* A daemon that is killed at any step while it writes and compacts, and the next one. */
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"

#define DAEMON          1u
#define WRITERS         2u
#define OPERATIONS_EACH 4u

static struct kvstore *store;

static struct kvstore_options options = {
    .create = true, .datafiles = 1, .direct = KVSTORE_DIRECT_OWNER};

static void work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < OPERATIONS_EACH; i++)
        explore_operation(store);
    if (options.durability == KVSTORE_SYNC_ALWAYS && kvstore_sync(store) != KV_OK)
        explore_fail("a sync fails");
}

static void compact(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    enum kv_status status = kvstore_compact(store, 0, &error);
    if (status != KV_OK)
        explore_fail("a compaction gives status %d: %s", status, error.text);
}

static void serve(void *unused)
{
    (void)unused;
    explore_quietly(true);
    store = explore_store_open(&options);
    for (unsigned i = 0; i < 3; i++)
        explore_operation(store);
    explore_quietly(false);
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(DAEMON, work, NULL);
    explore_thread(DAEMON, compact, NULL);
    explore_may_kill(DAEMON);
}

static void read_all(void)
{
    for (unsigned i = 0; i < EXPLORE_KEYS; i++)
        explore_get(store, i);
}

static void run_with(uint32_t datafiles, enum kvstore_durability durability)
{
    options.datafiles = datafiles;
    options.durability = durability;
    explore_directory(&options);
    explore_history_begin();
    explore_thread(DAEMON, serve, NULL);
    explore_wait_for_threads();
    explore_quietly(true);
    if (explore_is_gone(DAEMON))
        explore_forget_statics();
    else
        explore_store_close(store);
    /* The next daemon, which takes over what it finds; and one that reads files only. */
    for (unsigned i = 0; i < 2; i++) {
        store = explore_store_open(&options);
        read_all();
        for (unsigned j = 0; j < 3; j++)
            explore_operation(store);
        read_all();
        explore_store_close(store);
    }
    explore_directory_remove();
    explore_history_judge();
}

static void run(void)
{
    run_with(1, KVSTORE_SYNC_NONE);
}

/* Two files are synced together by the commit log, which the next daemon replays. */
static void run_commit(void)
{
    run_with(2, KVSTORE_SYNC_ALWAYS);
}

EXPLORE_HARNESS(explore_takeover_commit) = {
    .name = "takeover-commit",
    .invariant = "the same with --sync always, two data files and their commit log",
    .run = run_commit,
    .in_a_process = true,
};

EXPLORE_HARNESS(explore_takeover) = {
    .name = "takeover",
    .invariant = "what was acknowledged is there after kill -9 at any step, and nothing else",
    .run = run,
    .in_a_process = true,
};
