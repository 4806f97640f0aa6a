/* A follower that reads the logs which compactions have replaced, while these go: for want of room,
 * after a time, or when the store is opened again. */
#include <stdatomic.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"

#define WRITERS     2u
#define PUTS_EACH   4u
#define COMPACTIONS 3u
#define CHANGES_MAX 64u
#define KEEP_MS     3600000u
#define SHORT_MS    60000u /* PAST_LOGS_MIN_MS: the least */
#define FEW_BYTES   20000u /* of one or two logs */

static struct {
    struct kvstore *store;
    struct kvstore_position position;
    struct {
        uint64_t version;
        unsigned began_when; /* the put: past.beginnings of then */
    } written[CHANGES_MAX];
    unsigned written_count;
    uint64_t seen[CHANGES_MAX]; /* the same, since the follower has begun anew */
    unsigned seen_count;
    unsigned beginnings;
} past;

static bool take(void *unused, const struct kvstore_change *change)
{
    (void)unused;
    EXPLORE_CHECK(change->kind == KVSTORE_CHANGE_PUT, "a change of kind %d", change->kind);
    EXPLORE_CHECK(past.seen_count == 0 || change->version > past.seen[past.seen_count - 1],
                  "a change comes twice, or late");
    past.seen[past.seen_count++] = change->version;
    return true;
}

static bool was_seen(uint64_t version)
{
    for (unsigned i = 0; i < past.seen_count; i++)
        if (past.seen[i] == version)
            return true;
    return false;
}

/* Between two changes that were seen none was left out; and none of those that were made after it
 * had begun, if it is at the end. */
static void check_seen(bool at_end)
{
    for (unsigned i = 0; i < past.written_count && past.seen_count > 0; i++) {
        uint64_t version = past.written[i].version;
        bool is_between = version > past.seen[0] && version < past.seen[past.seen_count - 1];
        EXPLORE_CHECK(!is_between || was_seen(version), "a change was left out");
    }
    for (unsigned i = 0; at_end && i < past.written_count; i++)
        EXPLORE_CHECK(past.written[i].began_when < past.beginnings ||
                          was_seen(past.written[i].version),
                      "a change at the end was left out");
}

static void begin_anew(void)
{
    EXPLORE_CHECK(kvstore_changes_now(past.store, 0, &past.position) == KV_OK, "no place");
    past.seen_count = 0;
    past.beginnings++;
}

/* Reads a few changes. False: it is at the end. */
static bool follow_some(void)
{
    bool at_end;
    enum kv_status status = kvstore_changes(past.store, 0, &past.position, kv_slice_from_string(""),
                                            1 + explore_random(3), take, NULL, &at_end);
    EXPLORE_CHECK(status == KV_OK || status == KV_MISSED, "the changes give status %d", status);
    if (status == KV_OK)
        return !at_end;
    check_seen(false);
    begin_anew();
    return true;
}

static void follow(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 8; i++) {
        follow_some();
        explore_sleep_ms(explore_random(4) == 0 ? SHORT_MS / 2 : 1);
    }
}

static void put(struct kvstore *store)
{
    struct kvstore_written written = {.version = 0};
    struct kv_slice key = explore_key(explore_random(EXPLORE_KEYS));
    unsigned began_when = past.beginnings;
    enum kv_status status = kvstore_put(store, key, key, NULL, &written);
    EXPLORE_CHECK(status == KV_OK, "a put gives status %d", status);
    bool was_quiet = explore_quietly(true);
    past.written[past.written_count].version = written.version;
    past.written[past.written_count++].began_when = began_when;
    explore_quietly(was_quiet);
}

static void work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < PUTS_EACH; i++)
        put(past.store);
}

static void compact(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    for (unsigned i = 0; i < COMPACTIONS; i++) {
        enum kv_status status = kvstore_compact(past.store, 0, &error);
        EXPLORE_CHECK(status == KV_OK, "a compaction gives status %d: %s", status, error.text);
    }
}

static void run(void)
{
    static const uint64_t bytes[] = {1, FEW_BYTES, UINT64_C(1) << 30};
    struct kvstore_options options = {.create = true,
                                      .datafiles = 1,
                                      .durability = KVSTORE_SYNC_NONE,
                                      .keep_newest_log = explore_random(2) == 0,
                                      .keep_changes_ms =
                                          explore_random(2) == 0 ? SHORT_MS : KEEP_MS,
                                      .keep_changes_bytes = bytes[explore_random(3)]};
    explore_quietly(true);
    memset(&past, 0, sizeof past);
    explore_directory(&options);
    past.store = explore_store_open(&options);
    begin_anew();
    for (unsigned i = 0; i < 3; i++)
        put(past.store);
    explore_quietly(false);
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(0, work, NULL);
    explore_thread(0, compact, NULL);
    explore_thread(0, follow, NULL);
    explore_wait_for_threads();
    explore_quietly(true);
    if (explore_random(2) == 0) {
        explore_store_close(past.store);
        past.store = explore_store_open(&options);
        put(past.store);
    }
    while (follow_some())
        continue;
    check_seen(true);
    explore_store_close(past.store);
    explore_directory_remove();
}

EXPLORE_HARNESS(explore_past_logs) = {
    .name = "past-logs",
    .invariant = "who reads replaced logs sees each change once, or is told that it missed some",
    .run = run,
};
