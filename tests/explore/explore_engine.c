/* The engine: threads that read and write a store, while it compacts and grows. */
#include <stdatomic.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"
#include "tests/support/store_variants.h"

#define WORKERS         3u
#define OPERATIONS_EACH 5u

static struct kvstore *store;

static void work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < OPERATIONS_EACH; i++)
        explore_durable_operation(store);
}

static void compact(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    for (uint32_t i = 0; i < 2; i++) {
        enum kv_status status = kvstore_compact(store, 0, &error);
        if (status != KV_OK)
            explore_fail("a compaction gives status %d: %s", status, error.text);
    }
}

static void run_with(const struct kvstore_options *options)
{
    explore_quietly(true);
    explore_directory(options);
    store = explore_store_open(options);
    explore_history_begin();
    for (unsigned i = 0; i < 3; i++)
        explore_operation(store);
    explore_quietly(false);
    for (unsigned i = 0; i < WORKERS; i++)
        explore_thread(0, work, NULL);
    explore_thread(0, compact, NULL);
    explore_wait_for_threads();
    explore_quietly(true);
    explore_store_close(store);
    explore_directory_remove();
    explore_history_judge();
}

static void run_locked(void)
{
    run_with(
        &(struct kvstore_options){.create = true, .datafiles = 1, .durability = KVSTORE_SYNC_NONE});
}

static void run_optimistic(void)
{
    run_with(&(struct kvstore_options){.create = true,
                                       .datafiles = 1,
                                       .durability = KVSTORE_SYNC_NONE,
                                       .locking = optimistic_if_there()});
}

static void run_cached(void)
{
    run_with(&(struct kvstore_options){.create = true,
                                       .datafiles = 1,
                                       .durability = KVSTORE_SYNC_NONE,
                                       .cache_bytes = KVSTORE_MIN_CACHE_BYTES});
}

/* Each write waits for the disk, as --sync always has it; one sync is for both files. */
static void run_durable(void)
{
    run_with(&(struct kvstore_options){
        .create = true, .datafiles = 2, .durability = KVSTORE_SYNC_ALWAYS});
}

EXPLORE_HARNESS(explore_engine_durable) = {
    .name = "engine-durable",
    .invariant = "the same with --sync always: every writer that waits for the disk returns",
    .run = run_durable,
};

EXPLORE_HARNESS(explore_engine_locked) = {
    .name = "engine",
    .invariant = "reads and writes of a store that compacts are linearizable",
    .run = run_locked,
};

EXPLORE_HARNESS(explore_engine_optimistic) = {
    .name = "engine-optimistic",
    .invariant = "the same with --locking optimistic, whose readers take no lock",
    .run = run_optimistic,
};

EXPLORE_HARNESS(explore_engine_cached) = {
    .name = "engine-cache",
    .invariant = "the same with --cache",
    .run = run_cached,
};
