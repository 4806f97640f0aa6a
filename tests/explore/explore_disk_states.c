/*
 * A short life of a store on the machine dies in one of its calls, and the power goes: not one of
 * the states that the disk may then have is tried, as explore_machine does after long lives, but
 * many, or all: EXPLORE_STATES (of one schedule; 3) is how many.
 */
#include <stdlib.h>
#include <string.h>

#include "common/report/log.h"
#include "mqkv/kvstore.h"
#include "tests/explore/explore.h"
#include "tests/explore/machine.h"
#include "tests/explore/store_model.h"

#define SHORT_LIFE_PATH  MACHINE_PATH "/a"
#define SHORT_LIFE_CALLS 200u /* that it makes, or fewer */
#define DEFAULT_STATES   3u
#define KEYS             6u
#define LIVING           1u
#define LOOKING          2u /* processes */

static struct kvstore_options options;
static bool store_exists; /* for certain: kvstore_open has returned */
static uint32_t token;

static struct kvstore *open_it(void)
{
    struct kvstore *store;
    struct kv_error error = {.text = ""};
    enum kv_status status = kvstore_open(SHORT_LIFE_PATH, &options, &store, &error);
    EXPLORE_CHECK(status == KV_OK, "the store cannot be opened: %s", error.text);
    store_exists = true;
    return store;
}

static void close_it(struct kvstore *store)
{
    EXPLORE_CHECK(kvstore_close(store, NULL) == KV_OK, "the store cannot be closed");
    model_note_all_durable();
}

static struct kv_slice next_value(uint8_t value[MODEL_VALUE_BYTES])
{
    static const size_t sizes[] = {9000, 8, 600};
    uint32_t number = ++token;
    for (size_t at = 0; at + sizeof number <= 9000; at += sizeof number)
        memcpy(value + at, &number, sizeof number);
    return kv_slice(value, sizes[number % 3]);
}

static struct kvstore_ticket put(struct kvstore *store, unsigned key, size_t *write)
{
    static uint8_t value[MODEL_VALUE_BYTES];
    struct kv_slice slice = next_value(value);
    struct kvstore_written written;
    *write = model_try(key, &slice, 0);
    enum kv_status status = kvstore_put(store, model_key(key), slice, NULL, &written);
    EXPLORE_CHECK(status == KV_OK, "a put gives status %d", status);
    const char *wrong = model_note_done(*write, written.version, explore_clock_ns());
    EXPLORE_CHECK(!wrong, "%s", wrong);
    return written.ticket;
}

static void wait_for(struct kvstore *store, struct kvstore_ticket ticket, size_t write)
{
    enum kv_status status = kvstore_wait_durable(store, ticket);
    EXPLORE_CHECK(status == KV_OK, "kvstore_wait_durable gives status %d", status);
    model_note_durable(write);
}

static void put_one(struct kvstore *store, unsigned key, bool is_durable)
{
    size_t write;
    struct kvstore_ticket ticket = put(store, key, &write);
    if (is_durable)
        wait_for(store, ticket, write);
}

static void delete_one(struct kvstore *store, unsigned key)
{
    struct kvstore_written written;
    size_t write = model_try(key, NULL, 0);
    enum kv_status status = kvstore_delete(store, model_key(key), 0, &written);
    EXPLORE_CHECK(status == KV_OK, "a delete gives status %d", status);
    const char *wrong = model_note_done(write, written.version, explore_clock_ns());
    EXPLORE_CHECK(!wrong, "%s", wrong);
    wait_for(store, written.ticket, write);
}

/* All keys from the first one on, in both data files, which a commit log makes durable with one
 * sync. */
static void put_together(struct kvstore *store, unsigned first_key)
{
    struct kvstore_ticket tickets[KEYS];
    size_t tried[KEYS];
    for (unsigned key = first_key; key < KEYS; key++)
        tickets[key] = put(store, key, &tried[key]);
    for (unsigned key = first_key; key < KEYS; key++)
        kvstore_request_sync(store, tickets[key]);
    for (unsigned key = first_key; key < KEYS; key++)
        wait_for(store, tickets[key], tried[key]);
}

/* Keys of both data files change together: one of them is removed. */
static void transact(struct kvstore *store, bool is_durable)
{
    static uint8_t values[KEYS][MODEL_VALUE_BYTES];
    struct kv_slice slices[KEYS];
    struct model_part parts[KEYS];
    struct kvstore_step steps[KEYS] = {0};
    struct kvstore_step_result results[KEYS] = {0};
    for (unsigned key = 0; key < KEYS; key++) {
        bool is_put = key != 4;
        slices[key] = next_value(values[key]);
        parts[key] = (struct model_part){key, is_put ? &slices[key] : NULL, 0};
        steps[key].kind = is_put ? KVSTORE_STEP_PUT : KVSTORE_STEP_DELETE;
        steps[key].key = model_key(key);
        if (is_put)
            steps[key].value = slices[key];
    }
    const struct kvstore_transaction transaction = {.then = steps, .then_count = KEYS};
    size_t first = model_try_together(parts, KEYS);
    enum kv_status status = kvstore_transact(store, &transaction, results, NULL);
    EXPLORE_CHECK(status == KV_OK, "a transaction gives status %d", status);
    for (unsigned key = 0; key < KEYS; key++) {
        const char *wrong =
            model_note_done(first + key, results[key].written.version, explore_clock_ns());
        EXPLORE_CHECK(!wrong, "%s", wrong);
    }
    if (!is_durable)
        return;
    status = kvstore_wait_durable(store, results[0].written.ticket); /* and so all */
    EXPLORE_CHECK(status == KV_OK, "kvstore_wait_durable gives status %d", status);
    for (unsigned key = 0; key < KEYS; key++)
        model_note_durable(first + key);
}

static void compact(struct kvstore *store, uint32_t file)
{
    EXPLORE_CHECK(kvstore_compact(store, file, NULL) == KV_OK, "a compaction fails");
}

/* Makes the store, writes, deletes, transacts, compacts, closes, and goes on after the
 * checkpoint. */
static void live_shortly(void *unused)
{
    (void)unused;
    bool always = options.durability == KVSTORE_SYNC_ALWAYS;
    struct kvstore *store = open_it();
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        model_set_file(key, kvstore_file_of(store, model_key(key)));
    for (unsigned key = 0; key < KEYS; key++)
        put_one(store, key, always && key % 2 == 0);
    if (always) {
        put_together(store, 0);
        put_together(store, 3);
    }
    transact(store, options.durability != KVSTORE_SYNC_NONE);
    delete_one(store, 1);
    put_one(store, 2, false);
    compact(store, 0);
    put_one(store, 3, options.durability != KVSTORE_SYNC_NONE);
    put_one(store, 4, false);
    compact(store, 1);
    close_it(store);
    store = open_it();
    put_one(store, 5, false);
    put_one(store, 0, true);
    transact(store, false);
    close_it(store);
}

static void look(void *unused)
{
    (void)unused;
    struct kvstore_options reading = {.read_only = true};
    struct kvstore *store;
    struct kv_error error = {.text = ""};
    static uint8_t values[MODEL_KEYS][MODEL_VALUE_BYTES];
    struct model_finding found[MODEL_KEYS];
    enum kv_status status = kvstore_open(SHORT_LIFE_PATH, &reading, &store, &error);
    if (status == KV_NOT_FOUND && !store_exists)
        return;
    EXPLORE_CHECK(status == KV_OK, "the store cannot be opened: status %d: %s", status, error.text);
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        struct kvstore_entry entry = {0};
        status = kvstore_get(store, model_key(key), values[key], MODEL_VALUE_BYTES, &entry);
        EXPLORE_CHECK(status == KV_OK || status == KV_NOT_FOUND, "a get gives status %d", status);
        found[key] = (struct model_finding){status == KV_OK, entry.version,
                                            kv_slice(values[key], entry.value_bytes)};
    }
    const struct model_circumstances now = {0};
    const char *wrong = model_judge(found, false, &now);
    EXPLORE_CHECK(!wrong, "%s", wrong);
    kvstore_close(store, NULL);
}

static void try_state(void *argument)
{
    uint64_t state = *(const uint64_t *)argument;
    machine_cut_power_at(state);
    explore_note("state %llu", (unsigned long long)state);
    explore_thread(LOOKING, look, NULL);
    explore_wait_for_threads();
}

static void run_disk_states(void)
{
    const char *wanted = getenv("EXPLORE_STATES");
    uint64_t most = wanted ? strtoull(wanted, NULL, 0) : DEFAULT_STATES;
    log_set_level(LOG_LEVEL_ERROR);
    options = (struct kvstore_options){.create = true,
                                       .datafiles = 2,
                                       .durability = (enum kvstore_durability)explore_random(3),
                                       .io = (enum kvstore_io)explore_random(2),
                                       .sync_interval_ms = 5,
                                       .compact_dead_percent = 100};
    store_exists = false;
    token = 0;
    machine_begin();
    model_begin();
    machine_die_at(1 + explore_random(SHORT_LIFE_CALLS));
    explore_thread(LIVING, live_shortly, NULL);
    explore_wait_for_threads();
    machine_bury(LIVING);
    explore_forget_statics();
    log_set_level(LOG_LEVEL_ERROR);
    uint64_t states = machine_disk_states();
    explore_count(states < most ? states : most, "states of the disk");
    for (uint64_t i = 0; i < (states < most ? states : most); i++) {
        uint64_t drawn = (uint64_t)explore_random(UINT32_MAX) << 32 | explore_random(UINT32_MAX);
        uint64_t state = states <= most ? i : drawn % states;
        explore_branch(try_state, &state);
    }
    machine_end();
}

EXPLORE_HARNESS(explore_disk_states) = {
    .name = "disk-states",
    .invariant = "each state that a disk may have after a power cut opens with what was promised",
    .run = run_disk_states,
    .most_in_a_process = 200,
    .most_still_ms = 1,
};
