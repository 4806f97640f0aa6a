#include "tests/explore/explore_machine_writes.h"

#include <inttypes.h>
#include <string.h>

#include "kvstore/format/fileheader.h"
#include "tests/explore/explore.h"
#include "tests/explore/explore_machine.h"
#include "tests/explore/explore_machine_reads.h"

/* True: the write was done. What the disk refused to write, and to erase again, may be found by the
 * next process: then the write is one that was tried. */
static bool note_outcome(size_t write, enum kv_status status, const struct kvstore_written *written,
                         const char *what)
{
    if (status != KV_OK) {
        if (status != KV_IO || !machine_has_failed())
            model_note_failed(write);
        machine_check_status(status, what);
        return false;
    }
    const char *wrong = model_note_done(write, written->version, explore_clock_ns());
    if (wrong)
        explore_fail("%s", wrong);
    return true;
}

static void settle_write(size_t write, enum kv_status status, const struct kvstore_written *written,
                         struct model_random *random, const char *what)
{
    if (!note_outcome(write, status, written, what))
        return;
    bool waits = run.options.durability == KVSTORE_SYNC_ALWAYS ? !model_one_in(random, 4)
                                                               : model_one_in(random, 12);
    if (!waits)
        return;
    if (model_one_in(random, 3)) { /* as a daemon does: somebody else's sync */
        kvstore_request_sync(run.store, written->ticket);
        explore_sleep_ms(1);
        if (kvstore_is_durable(run.store, written->ticket))
            model_note_durable(write);
        return;
    }
    status = kvstore_wait_durable(run.store, written->ticket);
    machine_check_status(status, "kvstore_wait_durable");
    if (status == KV_OK)
        model_note_durable(write);
}

static void put(unsigned key, struct model_random *random, bool exchanges)
{
    static _Thread_local uint8_t value[MODEL_VALUE_BYTES], before[MODEL_VALUE_BYTES];
    struct kvstore_put_options options = {0};
    struct kvstore_written written = {0};
    struct kv_slice slice = model_make_value(random, value);
    if (run.waits_together && slice.size > 40)
        slice.size = 40;
    if (model_one_in(random, 5))
        options.expiry_ms =
            machine_realtime_ms() + model_below(random, 1u << model_below(random, 12));
    if (options.expiry_ms != 0 && slice.size > sizeof options.expiry_ms)
        slice.size -= sizeof options.expiry_ms; /* the record is as large as without it */
    size_t write = model_try(key, &slice, options.expiry_ms);
    bool found;
    enum kv_status status = exchanges
                                ? kvstore_exchange(run.store, model_key(key), slice, &options,
                                                   before, sizeof before, &found, NULL, &written)
                                : kvstore_put(run.store, model_key(key), slice, &options, &written);
    explore_note("  put %u, %zu bytes, version %" PRIu64 ": %s", key, slice.size, written.version,
                 kv_status_name(status));
    settle_write(write, status, &written, random, "a put");
}

/* Small writes to all of the worker's keys, and one wait for all: what a daemon has when many
 * clients wait, and what the commit log is for. */
static void put_together(unsigned worker, struct model_random *random)
{
    size_t tried[MODEL_KEYS];
    struct kvstore_ticket tickets[MODEL_KEYS];
    unsigned count = 0;
    for (unsigned key = worker; key < MODEL_KEYS; key += run.workers) {
        uint64_t words[4] = {model_draw(random)};
        struct kv_slice slice = kv_slice(words, MODEL_SMALL_BYTES);
        struct kvstore_written written = {0};
        tried[count] = model_try(key, &slice, 0);
        enum kv_status status = kvstore_put(run.store, model_key(key), slice, NULL, &written);
        explore_note("  put %u, version %" PRIu64 ": %s", key, written.version,
                     kv_status_name(status));
        if (note_outcome(tried[count], status, &written, "a put"))
            tickets[count++] = written.ticket;
    }
    for (unsigned i = 0; i < count; i++)
        kvstore_request_sync(run.store, tickets[i]);
    for (unsigned i = 0; i < count; i++) {
        enum kv_status status = kvstore_wait_durable(run.store, tickets[i]);
        machine_check_status(status, "kvstore_wait_durable");
        if (status == KV_OK)
            model_note_durable(tried[i]);
    }
    explore_note("  all of them are waited for");
}

/* The machine maps 2 MiB of a file at most, of which the store leaves half for what comes. */
#define FILLED_MOST_BYTES (UINT64_C(700) << 10)

/* Brings the end of the key's log close to where the file has to grow, so that what comes next
 * does it. */
static void fill_up(unsigned key, struct model_random *random)
{
    static _Thread_local uint8_t value[MODEL_VALUE_BYTES];
    struct kvstore_file_statistics now;
    uint64_t spare = 100 + model_below(random, 500);
    for (unsigned i = 0; i < 8; i++) {
        kvstore_file_statistics(run.store, kvstore_file_of(run.store, model_key(key)), &now);
        uint64_t tail = FILE_HEADER_BYTES + now.live_bytes + now.dead_bytes;
        if (tail + spare >= now.file_bytes || now.file_bytes > FILLED_MOST_BYTES)
            return;
        uint64_t size = now.file_bytes - tail - spare;
        memset(value, (int)model_below(random, 256), sizeof value);
        struct kv_slice slice =
            kv_slice(value, size < MODEL_VALUE_BYTES ? size : MODEL_VALUE_BYTES);
        struct kvstore_written written = {0};
        size_t write = model_try(key, &slice, 0);
        enum kv_status status = kvstore_put(run.store, model_key(key), slice, NULL, &written);
        explore_note("  fill up with %u, %zu bytes, version %" PRIu64 ": %s", key, slice.size,
                     written.version, kv_status_name(status));
        if (!note_outcome(write, status, &written, "a put"))
            return;
    }
}

static void append(unsigned key, struct model_random *random)
{
    static _Thread_local uint8_t value[MODEL_VALUE_BYTES];
    const struct kv_slice *before = model_value(key);
    if (!before || before->size + 16 > MODEL_VALUE_BYTES ||
        run.options.evict != KVSTORE_EVICT_NONE || run.clock_jumps) {
        put(key, random, false);
        return;
    }
    struct kvstore_entry entry;
    if (kvstore_get_to(run.store, model_key(key), NULL, NULL, &entry) != KV_OK ||
        entry.expiry_ms != 0) { /* it may expire in between */
        put(key, random, false);
        return;
    }
    uint64_t suffix = model_draw(random);
    memcpy(value, before->data, before->size);
    memcpy(value + before->size, &suffix, sizeof suffix);
    struct kv_slice slice = kv_slice(value, before->size + sizeof suffix);
    struct kvstore_written written = {0};
    size_t write = model_try(key, &slice, 0);
    enum kv_status status =
        kvstore_append(run.store, model_key(key), kv_slice(&suffix, sizeof suffix), NULL, &written);
    explore_note("  append to %u, version %" PRIu64 ": %s", key, written.version,
                 kv_status_name(status));
    settle_write(write, status, &written, random, "an append");
}

static void delete_key(unsigned key, struct model_random *random)
{
    struct kvstore_written written = {0};
    size_t write = model_try(key, NULL, 0);
    enum kv_status status = kvstore_delete(run.store, model_key(key), 0, &written);
    explore_note("  delete %u, version %" PRIu64 ": %s", key, written.version,
                 kv_status_name(status));
    if (status == KV_NOT_FOUND) {
        model_note_failed(write);
        machine_read_key(key);
        return;
    }
    settle_write(write, status, &written, random, "a delete");
}

static void sync_all(void)
{
    uint64_t began_ns = explore_clock_ns(); /* what is done meanwhile need not be covered */
    enum kv_status status = kvstore_sync(run.store);
    explore_note("  sync: %s", kv_status_name(status));
    machine_check_status(status, "kvstore_sync");
    if (status == KV_OK)
        model_note_durable_until(began_ns);
}

static void jump(struct model_random *random)
{
    int64_t by_ms = (int64_t)model_below(random, 1u << model_below(random, 22));
    if (!run.clock_jumps)
        return;
    machine_move_clock(model_one_in(random, 2) ? -by_ms : by_ms);
    explore_note("  the clock jumps");
}

/* Some of the worker's keys change together; sometimes because a guard does not hold. */
static void transact(unsigned worker, struct model_random *random)
{
    static _Thread_local uint8_t values[MODEL_KEYS][MODEL_VALUE_BYTES];
    struct kv_slice slices[MODEL_KEYS];
    struct model_part parts[MODEL_KEYS];
    struct kvstore_step steps[MODEL_KEYS] = {0};
    struct kvstore_step_result results[MODEL_KEYS] = {0};
    const struct kvstore_guard guard = {
        .kind = KVSTORE_GUARD_VERSION, .key = model_key(worker), .version = UINT64_C(1) << 60};
    uint32_t count = 0;
    for (unsigned key = worker; key < MODEL_KEYS; key += run.workers) {
        if (model_one_in(random, 2))
            continue;
        bool is_put = !model_one_in(random, 5);
        slices[count] = model_make_value(random, values[count]);
        if (slices[count].size > MODEL_SMALL_BYTES && !model_one_in(random, 3))
            slices[count].size = MODEL_SMALL_BYTES;
        parts[count] = (struct model_part){key, is_put ? &slices[count] : NULL, 0};
        steps[count].kind = is_put ? KVSTORE_STEP_PUT : KVSTORE_STEP_DELETE;
        steps[count].key = model_key(key);
        if (is_put)
            steps[count].value = slices[count];
        count++;
    }
    if (count == 0)
        return;
    struct kvstore_transaction transaction = {.then = steps, .then_count = count};
    if (model_one_in(random, 4))
        transaction = (struct kvstore_transaction){
            .guards = &guard, .guard_count = 1, .otherwise = steps, .otherwise_count = count};
    size_t first = model_try_together(parts, count);
    enum kv_status status = kvstore_transact(run.store, &transaction, results, NULL);
    explore_note("  transaction of %u keys from %u on: %s", count, parts[0].key,
                 kv_status_name(status));
    struct kvstore_ticket ticket = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (status == KV_OK && results[i].status == KV_NOT_FOUND && !parts[i].value) {
            model_note_failed(first + i);
        } else if (note_outcome(first + i, status == KV_OK ? results[i].status : status,
                                &results[i].written, "a transaction")) {
            ticket = results[i].written.ticket;
            explore_note("   %u: version %" PRIu64, parts[i].key, results[i].written.version);
        }
    }
    if (status != KV_OK || ticket.position == 0 || model_one_in(random, 3))
        return;
    status = kvstore_wait_durable(run.store, ticket); /* of one part, and so of all */
    machine_check_status(status, "kvstore_wait_durable");
    for (uint32_t i = 0; status == KV_OK && i < count; i++)
        model_note_durable(first + i);
}

/* Each worker has keys of its own. */
static unsigned key_of(unsigned worker, struct model_random *random)
{
    unsigned keys = (MODEL_KEYS - worker + run.workers - 1) / run.workers;
    return worker + run.workers * model_below(random, keys);
}

static void act(unsigned worker, struct model_random *random)
{
    unsigned key = key_of(worker, random);
    if (model_one_in(random, 30)) {
        fill_up(key, random);
        return;
    }
    if (run.transacts && model_one_in(random, 4)) {
        transact(worker, random);
        return;
    }
    if (run.waits_together && !model_one_in(random, 3)) {
        put_together(worker, random);
        return;
    }
    switch (model_below(random, 12)) {
    case 0:
    case 1:
        delete_key(key, random);
        break;
    case 2:
        append(key, random);
        break;
    case 3:
        machine_read_key(key);
        break;
    case 4:
        if (model_one_in(random, 3))
            sync_all();
        else
            jump(random);
        break;
    case 5:
        explore_sleep_ms(1u << model_below(random, 6));
        break;
    case 6:
        put(key, random, true);
        break;
    default:
        put(key, random, false);
    }
}

void machine_work(void *argument)
{
    unsigned worker = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < run.actions; i++) {
        unsigned part = run.life * PARTS_OF_LIFE + worker * PARTS_EACH + i;
        struct model_random random = machine_part_random(part);
        if (explore_has_part(part))
            act(worker, &random);
        if (run.options.durability == KVSTORE_SYNC_INTERVAL && model_one_in(&random, 3))
            explore_sleep_ms(1u << model_below(&random, 7)); /* so that syncs come due */
    }
}
