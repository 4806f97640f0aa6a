/* Reads of several keys at one moment without the daemon, beside one that writes single keys and
 * transactions, and compacts. One thread writes, so that the states through which the keys go are
 * known, in order: a read gives one of those that the store had while it ran. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "clientk/direct/direct_together.h"
#include "kvstore/format/sizes.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"

#define DAEMON      1u
#define CLIENT      2u
#define READERS     2u
#define WRITES      8u
#define READS_EACH  4u
#define OTHER_KEYS  3u
#define VALUE_BYTES (EXPLORE_LARGE_BYTES + 64u)

/* What the keys have: numbers, which no two writes share; 0: the key is absent. */
struct key_state {
    unsigned numbers[EXPLORE_KEYS];
};

static struct kvstore *store;
static struct direct direct;
static struct client_settings settings;
static int daemon_fd;
static bool values_are_large;

static struct {
    struct key_state states[WRITES + 1];
    unsigned begun, done; /* the store has had, or is in, states[done] .. states[begun] */
} written;

static const struct kvstore_options options = {.create = true,
                                               .datafiles = 2,
                                               .durability = KVSTORE_SYNC_NONE,
                                               .direct = KVSTORE_DIRECT_OWNER};

/* Writing -------------------------------------------------------------------------------------- */

static struct kv_slice number_text(unsigned number, char text[VALUE_BYTES])
{
    return kv_slice(text, (size_t)snprintf(text, VALUE_BYTES, "%u", number));
}

/* The number; and, where values are large, that byte after it which tells a torn value. */
static struct kv_slice number_value(unsigned number, char text[VALUE_BYTES])
{
    size_t length = number_text(number, text).size;
    size_t padding = values_are_large && number % 5 != 0 ? EXPLORE_LARGE_BYTES : 0;
    memset(text + length, (int)('a' + number % 26), padding);
    return kv_slice(text, length + padding);
}

static void write_key(unsigned key, unsigned number)
{
    char text[VALUE_BYTES];
    enum kv_status status = number == 0
                                ? kvstore_delete(store, explore_key(key), 0, NULL)
                                : kvstore_put(store, explore_key(key), number_value(number, text),
                                              &(struct kvstore_put_options){.version = 0}, NULL);
    EXPLORE_CHECK(status == KV_OK || (number == 0 && status == KV_NOT_FOUND),
                  "a write gives status %d", status);
}

static void write_keys(const struct key_state *state)
{
    char texts[EXPLORE_KEYS][VALUE_BYTES];
    struct kvstore_step steps[EXPLORE_KEYS] = {{.kind = KVSTORE_STEP_PUT}};
    struct kvstore_step_result results[EXPLORE_KEYS];
    for (unsigned key = 0; key < EXPLORE_KEYS; key++) {
        unsigned number = state->numbers[key];
        steps[key].kind = number == 0 ? KVSTORE_STEP_DELETE : KVSTORE_STEP_PUT;
        steps[key].key = explore_key(key);
        if (number != 0)
            steps[key].value = number_value(number, texts[key]);
    }
    const struct kvstore_transaction transaction = {.then = steps, .then_count = EXPLORE_KEYS};
    enum kv_status status = kvstore_transact(store, &transaction, results, NULL);
    EXPLORE_CHECK(status == KV_OK, "a transaction gives status %d", status);
}

/* Writes one key, or all of them, and notes the state that follows. */
static void write_next(void)
{
    struct key_state next = written.states[written.begun];
    unsigned at = written.begun + 1;
    bool is_transaction = explore_random(4) == 0;
    unsigned only = explore_random(EXPLORE_KEYS);
    for (unsigned key = 0; key < EXPLORE_KEYS; key++)
        if (is_transaction || key == only)
            next.numbers[key] = explore_random(3) == 0 ? 0 : at * EXPLORE_KEYS + key;
    written.states[at] = next;
    written.begun = at;
    if (is_transaction)
        write_keys(&next);
    else
        write_key(only, next.numbers[only]);
    written.done = at;
}

static void write_all(void *unused)
{
    (void)unused;
    while (written.begun < WRITES)
        write_next();
}

/* Keys beside those that are read come, change and go. */
static void write_others(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < OTHER_KEYS; i++) {
        char text[VALUE_BYTES];
        struct kv_slice key = number_text(1000 + i, text);
        struct kvstore_put_options plain = {.version = 0};
        EXPLORE_CHECK(kvstore_put(store, key, key, &plain, NULL) == KV_OK, "another key");
        EXPLORE_CHECK(kvstore_put(store, key, key, &plain, NULL) == KV_OK, "another key");
        EXPLORE_CHECK(kvstore_delete(store, key, 0, NULL) == KV_OK, "another key");
    }
}

static void compact_all(void *unused)
{
    struct kv_error error = {.text = ""};
    (void)unused;
    for (uint32_t file = 0; file < options.datafiles; file++)
        if (kvstore_compact(store, file, &error) != KV_OK)
            explore_fail("a compaction fails: %s", error.text);
}

/* Reading -------------------------------------------------------------------------------------- */

static bool is_state(const struct key_state *seen, unsigned from, unsigned to)
{
    for (unsigned i = from; i <= to; i++)
        if (memcmp(seen, &written.states[i], sizeof *seen) == 0)
            return true;
    return false;
}

static unsigned number_of_result(const struct clientk_result *result)
{
    char text[VALUE_BYTES];
    char head[24] = "";
    unsigned number = 0;
    EXPLORE_CHECK(result->status == KV_OK || result->status == KV_NOT_FOUND,
                  "a read gives status %d", result->status);
    if (result->status == KV_NOT_FOUND)
        return 0;
    memcpy(head, result->value.data, at_most(result->value.size, sizeof head - 1));
    sscanf(head, "%u", &number);
    EXPLORE_CHECK(kv_slice_equal(kv_slice(result->value.data, result->value.size),
                                 number_value(number, text)),
                  "a value of %zu bytes that was never written: %s", result->value.size, head);
    return number;
}

/* What cannot be read in place is asked for by message, which is not part of this. */
static void read_once(struct direct_reader *reader, struct clientk_result results[EXPLORE_KEYS])
{
    struct clientk_operation operations[EXPLORE_KEYS] = {{.opcode = CLIENTK_GET}};
    unsigned first = explore_random(EXPLORE_KEYS); /* in any order */
    for (unsigned i = 0; i < EXPLORE_KEYS; i++) {
        operations[i].opcode = CLIENTK_GET;
        operations[i].key = explore_key((first + i) % EXPLORE_KEYS);
    }
    unsigned from = written.done;
    if (!direct_read_together(&direct, reader, operations, EXPLORE_KEYS, results))
        return;
    unsigned to = written.begun;
    struct key_state seen;
    for (unsigned i = 0; i < EXPLORE_KEYS; i++)
        seen.numbers[(first + i) % EXPLORE_KEYS] = number_of_result(&results[i]);
    EXPLORE_CHECK(is_state(&seen, from, to), "keys were never so: %u %u %u, between %u and %u",
                  seen.numbers[0], seen.numbers[1], seen.numbers[2], from, to);
}

static void read_together(void *unused)
{
    struct direct_reader reader = {.era = 0};
    struct clientk_result results[EXPLORE_KEYS] = {{.status = KV_OK}};
    (void)unused;
    handles_lock();
    direct_readers_join(&direct.readers, &reader);
    handles_unlock();
    for (unsigned i = 0; i < READS_EACH; i++)
        read_once(&reader, results);
    handles_lock();
    direct_readers_leave(&direct.readers, &reader);
    handles_unlock();
    for (unsigned i = 0; i < EXPLORE_KEYS; i++)
        clientk_value_free(&results[i].value);
}

/* ---------------------------------------------------------------------------------------------- */

static void begin(void)
{
    struct kvstore_direct_facts facts;
    explore_directory(&options);
    daemon_fd = eventfd(0, EFD_CLOEXEC);
    values_are_large = explore_random(2) == 0;
    settings = (struct client_settings){.direct = explore_random(3) == 0 ? CLIENTK_DIRECT_PREAD
                                                                         : CLIENTK_DIRECT_MAP};
    direct_init(&direct, &settings);
    store = explore_store_open(&options);
    kvstore_direct_facts(store, &facts);
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = 1,
                                   .store_device = facts.device,
                                   .store_inode = facts.inode,
                                   .store_number = facts.number};
    direct_welcome(&direct, &welcome, geteuid(), (struct direct_server){.fd = daemon_fd});
    memset(&written, 0, sizeof written);
    write_next();
    write_next();
}

static void run(void)
{
    explore_quietly(true);
    begin();
    explore_quietly(false);
    explore_thread(DAEMON, write_all, NULL);
    explore_thread(DAEMON, write_others, NULL);
    explore_thread(DAEMON, compact_all, NULL);
    for (unsigned i = 0; i < READERS; i++)
        explore_thread(CLIENT, read_together, NULL);
    explore_wait_for_threads();
    explore_quietly(true);
    direct_free(&direct);
    close(daemon_fd);
    explore_store_close(store);
    explore_directory_remove();
}

EXPLORE_HARNESS(explore_together) = {
    .name = "together",
    .invariant = "several keys that are read in place are as they were at one moment of the read",
    .run = run,
    .files_in_parts = true,
};
