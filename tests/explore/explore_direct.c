/* Reads without the daemon: another process's mapping of the shared index and the logs, while the
 * daemon writes, compacts, is killed, and the next one takes over. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "clientk/direct/direct.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"
#include "tests/history/history.h"

#define DAEMON          1u
#define CLIENT          2u
#define WRITERS         2u
#define READERS         2u
#define OPERATIONS_EACH 4u
#define READS_EACH      5u

static struct kvstore *store;
static struct direct direct;
static struct client_settings settings;
static int daemon_fd; /* readable once the daemon has ended */

static const struct kvstore_options options = {.create = true,
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
    settings = (struct client_settings){.direct = CLIENTK_DIRECT_MAP};
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
}

static void run(void)
{
    begin();
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(DAEMON, work, NULL);
    explore_thread(DAEMON, compact, NULL);
    for (unsigned i = 0; i < READERS; i++)
        explore_thread(CLIENT, read_in_place, NULL);
    explore_wait_for_threads();
    end();
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
    begin();
    explore_thread(DAEMON, restart, NULL);
    for (unsigned i = 0; i < READERS; i++)
        explore_thread(CLIENT, read_in_place, NULL);
    explore_wait_for_threads();
    end();
}

EXPLORE_HARNESS(explore_direct) = {
    .name = "direct",
    .invariant = "reads in place are linearizable with writes, over growth and compaction",
    .run = run,
};

EXPLORE_HARNESS(explore_direct_restart) = {
    .name = "direct-restart",
    .invariant = "the same while the daemon is restarted and compacts what it has",
    .run = run_restart,
};
