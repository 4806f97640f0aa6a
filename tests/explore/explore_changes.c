/* A follower of the changes, as watchers and the mirror are, while the store compacts. */
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"

#define WRITERS         2u
#define OPERATIONS_EACH 5u

static struct {
    struct kvstore *store;
    struct kvstore_position position;
    uint64_t newest[EXPLORE_KEYS]; /* version of the last change of the key */
    bool is_there[EXPLORE_KEYS];
    sem_t changed;
    _Atomic unsigned writing;
} followed;

static bool take(void *unused, const struct kvstore_change *change)
{
    (void)unused;
    unsigned key = (unsigned)(*(const char *)change->key.data - 'a');
    EXPLORE_CHECK(change->key.size == 1 && key < EXPLORE_KEYS, "a change of no key");
    EXPLORE_CHECK(change->version > followed.newest[key], "a change comes twice, or late");
    if (change->kind == KVSTORE_CHANGE_PUT)
        explore_value_number(change->value);
    followed.newest[key] = change->version;
    followed.is_there[key] = change->kind == KVSTORE_CHANGE_PUT;
    return true;
}

/* Takes what there is. */
static void catch_up(void)
{
    for (bool at_end = false; !at_end;) {
        enum kv_status status = kvstore_changes(followed.store, 0, &followed.position,
                                                kv_slice_from_string(""), 2, take, NULL, &at_end);
        EXPLORE_CHECK(status == KV_OK, "the changes give status %d", status);
    }
}

static void hear(void *unused, uint32_t file)
{
    (void)unused, (void)file;
    sem_post(&followed.changed);
}

/* Sleeps without a limit: a change that it is not told of leaves it asleep for ever. */
static void follow(void *unused)
{
    (void)unused;
    while (atomic_load(&followed.writing) > 0) {
        uint64_t before[EXPLORE_KEYS];
        kvstore_await_change(followed.store, 0);
        memcpy(before, followed.newest, sizeof before);
        catch_up();
        if (memcmp(before, followed.newest, sizeof before) == 0)
            sem_wait(&followed.changed);
    }
}

static void work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < OPERATIONS_EACH; i++)
        explore_operation(followed.store);
    /* The last change of all, after which the follower may end. */
    unsigned left = atomic_fetch_sub(&followed.writing, 1);
    if (left == 1)
        sem_post(&followed.changed);
}

static void compact(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    enum kv_status status = kvstore_compact(followed.store, 0, &error);
    EXPLORE_CHECK(status == KV_OK, "a compaction gives status %d: %s", status, error.text);
}

static void compare(void)
{
    for (unsigned key = 0; key < EXPLORE_KEYS; key++) {
        struct kvstore_entry entry = {.version = 0};
        enum kv_status status = kvstore_get(followed.store, explore_key(key), NULL, 0, &entry);
        EXPLORE_CHECK((status == KV_OK) == followed.is_there[key], "key %u: status %d", key,
                      status);
        EXPLORE_CHECK(status != KV_OK || entry.version == followed.newest[key],
                      "the last change of key %u is missing", key);
    }
}

static void run(void)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 1,
                                      .durability = KVSTORE_SYNC_NONE,
                                      .keep_changes_ms = 3600000};
    explore_quietly(true);
    memset(&followed, 0, sizeof followed);
    explore_directory(&options);
    explore_history_begin();
    followed.store = explore_store_open(&options);
    followed.writing = WRITERS;
    sem_init(&followed.changed, 0, 0);
    kvstore_set_change_listener(followed.store, hear, NULL);
    EXPLORE_CHECK(kvstore_changes_now(followed.store, 0, &followed.position) == KV_OK, "no place");
    explore_quietly(false);
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(0, work, NULL);
    explore_thread(0, compact, NULL);
    explore_thread(0, follow, NULL);
    explore_wait_for_threads();
    explore_quietly(true);
    catch_up();
    compare();
    explore_store_close(followed.store);
    explore_directory_remove();
    explore_history_judge();
}

EXPLORE_HARNESS(explore_changes) = {
    .name = "changes",
    .invariant = "a follower gets each change once, in order, and is told of each",
    .run = run,
};
