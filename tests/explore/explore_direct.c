/* Reads without the daemon: another process's mapping of the shared index and the logs, while the
 * daemon writes, compacts, is killed, and the next one takes over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "clientk/direct/direct.h"
#include "clientk/direct/direct_scan.h"
#include "kvstore/format/record.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"
#include "tests/history/history.h"
#include "tests/support/store_variants.h"

#define DAEMON          1u
#define CLIENT          2u
#define WRITERS         2u
#define READERS         2u
#define OPERATIONS_EACH 4u
#define READS_EACH      5u
#define PUTS_EACH       6u

/* A segment of the index holds fewer than KNOWN_KEYS + NEW_KEYS. */
#define KNOWN_KEYS   400u
#define NEW_KEYS     30u
#define LOOKUPS_EACH 12u

static struct kvstore *store;
static struct direct direct;
static struct client_settings settings;
static int daemon_fd; /* readable once the daemon has ended */

static struct kvstore_options options = {.create = true,
                                         .datafiles = 1,
                                         .durability = KVSTORE_SYNC_NONE,
                                         .direct = KVSTORE_DIRECT_OWNER};

static void work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < OPERATIONS_EACH; i++)
        explore_operation(store);
}

static void compact(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    enum kv_status status = kvstore_compact(store, 0, &error);
    if (status != KV_OK)
        explore_fail("a compaction gives status %d: %s", status, error.text);
}

/* What cannot be read in place is asked for by message, which is not part of this. */
static void read_in_place(void *unused)
{
    struct direct_reader reader = {.era = 0};
    struct clientk_value value = {.data = NULL};
    (void)unused;
    handles_lock();
    direct_readers_join(&direct.readers, &reader);
    handles_unlock();
    for (unsigned i = 0; i < READS_EACH; i++) {
        unsigned key = explore_random(EXPLORE_KEYS);
        uint64_t began_ns = explore_clock_ns();
        enum kv_status status = KV_IO;
        if (!direct_get(&direct, &reader, explore_key(key), true, &value, &status))
            continue;
        EXPLORE_CHECK(status == KV_OK || status == KV_NOT_FOUND, "a read gives status %d", status);
        explore_note_read(key,
                          status == KV_OK ? explore_value_number(kv_slice(value.data, value.size))
                                          : HISTORY_ABSENT,
                          began_ns);
    }
    handles_lock();
    direct_readers_leave(&direct.readers, &reader);
    handles_unlock();
    clientk_value_free(&value);
}

static void offer(void)
{
    struct kvstore_direct_facts facts;
    kvstore_direct_facts(store, &facts);
    EXPLORE_CHECK(facts.direct == KVSTORE_DIRECT_OWNER, "the index is not shared");
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = 1,
                                   .store_device = facts.device,
                                   .store_inode = facts.inode,
                                   .store_number = facts.number};
    direct_welcome(&direct, &welcome, geteuid(), (struct direct_server){.fd = daemon_fd});
}

static void begin(void)
{
    explore_quietly(true);
    explore_directory(&options);
    explore_history_begin();
    daemon_fd = eventfd(0, EFD_CLOEXEC);
    explore_values_are_large(explore_random(2) == 0);
    settings = (struct client_settings){.direct = explore_random(3) == 0 ? CLIENTK_DIRECT_PREAD
                                                                         : CLIENTK_DIRECT_MAP};
    direct_init(&direct, &settings);
    store = explore_store_open(&options);
    for (unsigned i = 0; i < 3; i++)
        explore_operation(store);
    offer();
    explore_quietly(false);
}

static void end(void)
{
    explore_quietly(true);
    direct_free(&direct);
    close(daemon_fd);
    explore_store_close(store);
    explore_directory_remove();
    explore_history_judge();
    explore_values_are_large(false);
}

static void run_with_cache(uint64_t cache_bytes)
{
    options.cache_bytes = cache_bytes;
    options.locking = KVSTORE_FILE_RWLOCK;
    begin();
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(DAEMON, work, NULL);
    explore_thread(DAEMON, compact, NULL);
    for (unsigned i = 0; i < READERS; i++)
        explore_thread(CLIENT, read_in_place, NULL);
    explore_wait_for_threads();
    end();
}

static void run(void)
{
    run_with_cache(0);
}

static void run_cached(void)
{
    run_with_cache(KVSTORE_MIN_CACHE_BYTES);
}

/* The daemon goes and comes, in the way of a restart; a reader may stand still all the time. */
static void restart(void *unused)
{
    (void)unused;
    work(NULL);
    explore_store_close(store);
    store = explore_store_open(&options);
    work(NULL);
    compact(NULL);
    work(NULL);
}

static void run_restart(void)
{
    options.cache_bytes = 0;
    options.locking = KVSTORE_FILE_RWLOCK;
    begin();
    explore_thread(DAEMON, restart, NULL);
    for (unsigned i = 0; i < READERS; i++)
        explore_thread(CLIENT, read_in_place, NULL);
    explore_wait_for_threads();
    end();
}

/* Extents -------------------------------------------------------------------------------------- */

/* How many of the keys are written while they are read: of a single one each value lies where its
 * last but one did. */
static unsigned keys_changing;

/* Each key is there all the time, mostly with a value in an extent that had another before. */
static void put_again(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < PUTS_EACH; i++)
        explore_put(store, explore_random(keys_changing));
}

/* The same, and only the copies are steps: more of them come between two of a reader's. */
static void put_again_quickly(void *unused)
{
    explore_quietly_but_for_files(true);
    put_again(unused);
    explore_quietly_but_for_files(false);
}

static void read_what_stays(struct direct_reader *reader, struct clientk_value *value)
{
    unsigned key = explore_random(keys_changing);
    uint64_t began_ns = explore_clock_ns();
    enum kv_status status = KV_IO;
    bool with_bytes = explore_random(2) == 0;
    if (!direct_get(&direct, reader, explore_key(key), with_bytes, value, &status))
        return;
    EXPLORE_CHECK(status == KV_OK, "a key that is there: status %d in place", status);
    EXPLORE_CHECK(value->version > RECORD_NO_VERSION_YET, "a value without a version");
    if (with_bytes)
        explore_note_read(key, explore_value_number(kv_slice(value->data, value->size)), began_ns);
}

struct stay_scan {
    uint64_t began_ns;
    unsigned seen[EXPLORE_KEYS];
};

static bool see_stayer(void *context, const struct clientk_entry *entry)
{
    struct stay_scan *scan = context;
    for (unsigned key = 0; key < EXPLORE_KEYS; key++)
        if (kv_slice_equal(entry->key, explore_key(key))) {
            scan->seen[key]++;
            explore_note_read(key, explore_value_number(entry->value), scan->began_ns);
        }
    return true;
}

static void scan_what_stays(struct direct_reader *reader, struct clientk_result *result)
{
    const struct clientk_scan_options all = {.cursor = 0};
    struct stay_scan scan = {.began_ns = explore_clock_ns()};
    if (!direct_scan_page(&direct, reader, kv_slice(NULL, 0), &all, result) ||
        result->number != 0) /* the rest is asked for */
        return;
    EXPLORE_CHECK(result->status == KV_OK, "a scan gives status %d", result->status);
    clientk_read_page(&result->value, see_stayer, &scan);
    for (unsigned key = 0; key < EXPLORE_KEYS; key++)
        EXPLORE_CHECK(scan.seen[key] == 1, "key %u was visited %u times", key, scan.seen[key]);
}

static void read_extents(void *count)
{
    struct direct_reader reader = {.era = 0};
    struct clientk_result result = {.number = 0};
    handles_lock();
    direct_readers_join(&direct.readers, &reader);
    handles_unlock();
    for (unsigned i = 0; i < *(const unsigned *)count; i++)
        if (explore_random(4) == 0)
            scan_what_stays(&reader, &result);
        else
            read_what_stays(&reader, &result.value);
    handles_lock();
    direct_readers_leave(&direct.readers, &reader);
    handles_unlock();
    clientk_value_free(&result.value);
}

static void begin_extents(void)
{
    static unsigned warming = 1;
    options.cache_bytes = 0;
    options.locking = KVSTORE_FILE_RWLOCK;
    /* Contents are written from front to end through the mapping, or with calls. */
    explore_blocks_move(explore_random(3) > 0);
    begin();
    explore_quietly(true);
    explore_values_are_large(true);
    for (unsigned i = 0; i < 2 * EXPLORE_KEYS; i++)
        explore_put(store, i % EXPLORE_KEYS);
    keys_changing = 1 + explore_random(EXPLORE_KEYS);
    read_extents(&warming); /* what is mapped once, without steps */
    explore_quietly(false);
}

static void end_extents(void)
{
    static unsigned reads = READS_EACH;
    for (unsigned i = 0; i < READERS; i++)
        explore_thread(CLIENT, read_extents, &reads);
    explore_wait_for_threads();
    end();
    explore_blocks_move(false);
}

static void run_extents(void)
{
    begin_extents();
    for (unsigned i = explore_random(2); i < WRITERS; i++)
        explore_thread(DAEMON, put_again, NULL);
    if (explore_random(4) == 0)
        explore_thread(DAEMON, compact, NULL);
    end_extents();
}

static void run_copies(void)
{
    begin_extents();
    explore_thread(DAEMON, put_again_quickly, NULL);
    end_extents();
}

/* Growth --------------------------------------------------------------------------------------- */

static struct kv_slice numbered_key(unsigned number, char text[16])
{
    snprintf(text, 16, "key %u", number);
    return kv_slice_from_string(text);
}

static void put_number(unsigned number)
{
    char text[16];
    struct kv_slice key = numbered_key(number, text);
    enum kv_status status =
        kvstore_put(store, key, key, &(struct kvstore_put_options){.version = 0}, NULL);
    EXPLORE_CHECK(status == KV_OK, "a put gives status %d", status);
}

static void add_keys(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < NEW_KEYS; i++)
        put_number(KNOWN_KEYS + i);
}

/* What was there before is found, however items of the index move. */
static void look_up_without_lock(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < LOOKUPS_EACH; i++) {
        char text[16], found[16];
        struct kvstore_entry entry;
        struct kv_slice key = numbered_key(explore_random(KNOWN_KEYS), text);
        enum kv_status status = kvstore_get(store, key, found, sizeof found, &entry);
        EXPLORE_CHECK(status == KV_OK, "a key that is there: status %d", status);
        EXPLORE_CHECK(kv_slice_equal(key, kv_slice(found, entry.value_bytes)), "another's value");
    }
}

static void look_up_in_place(void *unused)
{
    struct direct_reader reader = {.era = 0};
    struct clientk_value value = {.data = NULL};
    (void)unused;
    handles_lock();
    direct_readers_join(&direct.readers, &reader);
    handles_unlock();
    for (unsigned i = 0; i < LOOKUPS_EACH; i++) {
        char text[16];
        struct kv_slice key = numbered_key(explore_random(KNOWN_KEYS), text);
        enum kv_status status = KV_IO;
        if (!direct_get(&direct, &reader, key, true, &value, &status))
            continue;
        EXPLORE_CHECK(status == KV_OK, "a key that is there: status %d in place", status);
        EXPLORE_CHECK(kv_slice_equal(key, kv_slice(value.data, value.size)), "another's value");
    }
    handles_lock();
    direct_readers_leave(&direct.readers, &reader);
    handles_unlock();
    clientk_value_free(&value);
}

static void run_growth(void)
{
    options.cache_bytes = 0;
    options.locking = optimistic_if_there();
    begin();
    explore_quietly(true);
    for (unsigned i = 0; i < KNOWN_KEYS; i++)
        put_number(i);
    explore_quietly(false);
    explore_thread(DAEMON, add_keys, NULL);
    explore_thread(DAEMON, look_up_without_lock, NULL);
    explore_thread(CLIENT, look_up_in_place, NULL);
    explore_wait_for_threads();
    end();
}

EXPLORE_HARNESS(explore_growth) = {
    .name = "growth",
    .invariant = "keys are found while items of the index move and its segments split",
    .run = run_growth,
};

EXPLORE_HARNESS(explore_direct) = {
    .name = "direct",
    .invariant = "reads in place are linearizable with writes, over growth and compaction",
    .run = run,
    .files_in_parts = true,
};

EXPLORE_HARNESS(explore_direct_cached) = {
    .name = "direct-cache",
    .invariant = "the same beside reads by message that a cache answers",
    .run = run_cached,
    .files_in_parts = true,
};

EXPLORE_HARNESS(explore_direct_restart) = {
    .name = "direct-restart",
    .invariant = "the same while the daemon is restarted and compacts what it has",
    .run = run_restart,
    .files_in_parts = true,
};

EXPLORE_HARNESS(explore_direct_extents) = {
    .name = "direct-extents",
    .invariant = "what is read in place is whole and there, though its extent gets other contents",
    .run = run_extents,
    .files_in_parts = true,
};

EXPLORE_HARNESS(explore_direct_copies) = {
    .name = "direct-copies",
    .invariant = "the same, where of the writer the copies alone are steps",
    .run = run_copies,
    .files_in_parts = true,
};
