/*
 * Whole stores on a simulated machine (machine.h): processes that open, write, compact, back up and
 * close a store, are killed or lose power at any step, and find there what they were promised.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/memory/whole_io.h"
#include "common/report/log.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "tests/explore/explore.h"
#include "tests/explore/machine.h"
#include "tests/explore/store_model.h"
#include "tests/support/store_variants.h"

#define STORE_PATH  MACHINE_PATH "/a"
#define BACKUP_PATH MACHINE_PATH "/b"

#define LIVES_MOST     4u
#define WORKERS_MOST   3u
#define DATAFILES_MOST 3u
#define COPY_BYTES     (1u << 20) /* of a data file, at most */
#define ACTIONS_MOST   15u
#define PARTS_OF_LIFE  64u /* LIVES_MOST of these are EXPLORE_PARTS */
#define PARTS_EACH     16u /* of a worker; the last worker's are the compactor's */

/* How much later than promised a write may be on disk: syncs take time, and wait for each other. */
#define INTERVAL_SLACK_NS UINT64_C(10000000)

enum death { LIVES_ON, DIES_AT_A_CALL, DIES_AT_A_STEP };

static struct {
    uint64_t seed;
    struct kvstore_options options;
    struct machine_faults faults;
    unsigned workers, actions;
    bool clock_jumps;
    bool waits_together; /* most writes do: the commit log has work */
    bool store_is_there; /* an open has returned */
    unsigned life;
    enum death death;
    bool all_done;   /* since the last judgement no power was lost, and no disk failed */
    bool is_judged;  /* what the life has found */
    bool may_refuse; /* the boot is not known */
    struct kvstore *store;
    bool ended;     /* the life, by itself */
    bool is_strict; /* nothing is excused any more */
} run;

/* The same for a part, whatever the others do. */
static struct model_random random_of(unsigned part)
{
    return (struct model_random){run.seed ^ part * UINT64_C(0x9e3779b97f4a7c15)};
}

static uint64_t realtime_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What the disk's state excuses. */
static bool is_excused(enum kv_status status)
{
    if (run.is_strict)
        return false;
    switch (status) {
    case KV_IO:
    case KV_READ_ONLY:
    case KV_NOT_DURABLE:
        return machine_has_failed();
    case KV_NO_SPACE:
        return run.faults.disk_bytes != 0;
    case KV_FULL:
        return run.options.max_bytes != 0;
    case KV_CORRUPT:
        return run.may_refuse;
    default:
        return false;
    }
}

static void check_status(enum kv_status status, const char *what)
{
    if (status != KV_OK && !is_excused(status))
        explore_fail("%s gives status %d (%s)", what, status, kv_status_name(status));
}

/* Reading -------------------------------------------------------------------------------------- */

static struct model_circumstances circumstances(void)
{
    uint64_t now_ms = realtime_ms();
    return (struct model_circumstances){now_ms, machine_latest_ms(),
                                        run.options.evict != KVSTORE_EVICT_NONE};
}

/* A read that fails is tried again. False: it fails each time. */
static bool find(struct kvstore *store, unsigned key, uint8_t value[MODEL_VALUE_BYTES],
                 struct model_finding *found)
{
    struct kvstore_entry entry = {0};
    enum kv_status status = KV_IO;
    for (unsigned i = 0; i < 30 && status == KV_IO; i++) {
        status = kvstore_get(store, model_key(key), value, MODEL_VALUE_BYTES, &entry);
        if (status != KV_OK && status != KV_NOT_FOUND)
            check_status(status, "a get");
    }
    if (status == KV_IO)
        return false;
    *found = (struct model_finding){status == KV_OK, entry.version,
                                    kv_slice(value, status == KV_OK ? entry.value_bytes : 0)};
    return true;
}

/* False: a key cannot be read. */
static bool find_all(struct kvstore *store, struct model_finding found[MODEL_KEYS])
{
    static uint8_t values[MODEL_KEYS][MODEL_VALUE_BYTES];
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (!find(store, key, values[key], &found[key]))
            return false;
    return true;
}

/* All keys of what the last process has left. */
static void judge(struct kvstore *store)
{
    struct model_finding found[MODEL_KEYS];
    /* What expires meanwhile is there or not: the earliest and the latest time count. */
    struct model_circumstances now = circumstances();
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        model_set_file(key, kvstore_file_of(store, model_key(key)));
    if (!find_all(store, found))
        explore_fail("a key cannot be read");
    now.latest_ms = circumstances().latest_ms;
    const char *wrong = model_judge(found, run.all_done, &now);
    if (wrong)
        explore_fail("%s", wrong);
    bool all_read = true;
    for (uint32_t file = 0; file < kvstore_datafiles(store); file++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(store, file, &statistics);
        all_read &= !statistics.taken_over;
    }
    if (all_read && !run.options.read_only)
        model_note_all_durable(); /* an open for writing syncs what it has read */
    run.all_done = run.is_judged = true;
}

static void read_key(unsigned key)
{
    uint8_t value[MODEL_VALUE_BYTES];
    struct model_finding found;
    struct model_circumstances now = circumstances();
    if (!find(run.store, key, value, &found))
        return;
    if (run.clock_jumps) /* back, perhaps, before the read */
        now.now_ms = 0;
    now.latest_ms = circumstances().latest_ms;
    const char *wrong = model_judge_read(key, &found, &now);
    if (wrong)
        explore_fail("%s", wrong);
}

/* Writing -------------------------------------------------------------------------------------- */

/* True: the write was done. What the disk refused to write, and to erase again, may be found by the
 * next process: then the write is one that was tried. */
static bool note_outcome(size_t write, enum kv_status status, const struct kvstore_written *written,
                         const char *what)
{
    if (status != KV_OK) {
        if (status != KV_IO || !machine_has_failed())
            model_note_failed(write);
        check_status(status, what);
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
    check_status(status, "kvstore_wait_durable");
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
        options.expiry_ms = realtime_ms() + model_below(random, 1u << model_below(random, 12));
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
        uint64_t word = model_draw(random);
        struct kv_slice slice = kv_slice(&word, sizeof word);
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
        check_status(status, "kvstore_wait_durable");
        if (status == KV_OK)
            model_note_durable(tried[i]);
    }
    explore_note("  all of them are waited for");
}

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
        if (tail + spare >= now.file_bytes)
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
        read_key(key);
        return;
    }
    settle_write(write, status, &written, random, "a delete");
}

static void sync_all(void)
{
    uint64_t began_ns = explore_clock_ns(); /* what is done meanwhile need not be covered */
    enum kv_status status = kvstore_sync(run.store);
    explore_note("  sync: %s", kv_status_name(status));
    check_status(status, "kvstore_sync");
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
        read_key(key);
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

static void work(void *argument)
{
    unsigned worker = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < run.actions; i++) {
        unsigned part = run.life * PARTS_OF_LIFE + worker * PARTS_EACH + i;
        struct model_random random = random_of(part);
        if (explore_has_part(part))
            act(worker, &random);
        if (run.options.durability == KVSTORE_SYNC_INTERVAL && model_one_in(&random, 3))
            explore_sleep_ms(1u << model_below(&random, 7)); /* so that syncs come due */
    }
}

/* Maintenance ---------------------------------------------------------------------------------- */

static void compact(struct model_random *random)
{
    struct kv_error error = {.text = ""};
    uint32_t file = model_below(random, kvstore_datafiles(run.store));
    enum kv_status status = kvstore_compact(run.store, file, &error);
    explore_note("  compact %u: %s", file, kv_status_name(status));
    if (status != KV_OK && !is_excused(status))
        explore_fail("a compaction gives status %d: %s", status, error.text);
}

/* A copy of the data files as they were at one moment, and what tells later whether they are still
 * so up to there (file_chapters.h), as a backup of the changes needs it. */
static struct copy {
    uint64_t bytes; /* 0: there is none */
    uint8_t content[COPY_BYTES];
} copies[DATAFILES_MOST];

static bool read_copy(struct kvstore_hold *hold, uint32_t file)
{
    struct kvstore_held_file held;
    struct copy *copy = &copies[file];
    kvstore_hold_file(hold, file, &held);
    size_t got = 0;
    copy->bytes = 0;
    if (held.bytes > COPY_BYTES)
        return false;
    for (uint64_t at = 0; at < held.bytes; at += got) {
        enum kv_status status = kvstore_hold_read(hold, file, at, copy->content + at, 8192, &got);
        if (status != KV_OK) {
            if (status != KV_BUSY)
                check_status(status, "kvstore_hold_read");
            return false;
        }
        if (got == 0)
            explore_fail("a hold ends too early");
    }
    copy->bytes = held.bytes;
    return true;
}

static bool write_copy(uint32_t file)
{
    char path[64];
    snprintf(path, sizeof path, BACKUP_PATH "/data.%04" PRIu32, file);
    int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (descriptor < 0)
        return false;
    bool done = whole_write(descriptor, copies[file].content, copies[file].bytes, 0);
    close(descriptor);
    return done;
}

static void judge_copy(const struct model_moment *moment)
{
    struct kvstore_options options = {.read_only = true};
    struct kvstore *copy;
    struct kv_error error = {.text = ""};
    enum kv_status status = kvstore_open(BACKUP_PATH, &options, &copy, &error);
    if (status != KV_OK) {
        if (!is_excused(status))
            explore_fail("the copy cannot be opened: status %d: %s", status, error.text);
        return;
    }
    const char *wrong = NULL;
    struct model_finding found[MODEL_KEYS];
    struct model_circumstances now = circumstances();
    if (run.clock_jumps)
        now.now_ms = 0;
    if (find_all(copy, found)) {
        now.latest_ms = circumstances().latest_ms;
        wrong = model_judge_copy(found, moment, &now);
    }
    if (wrong)
        explore_fail("in a copy: %s", wrong);
    kvstore_close(copy, NULL);
}

static void copy_store(void)
{
    struct model_moment moment;
    struct kvstore_hold *hold;
    struct kv_error error = {.text = ""};
    model_begin_moment(&moment);
    enum kv_status status = kvstore_hold_begin(run.store, &hold, &error);
    model_end_moment(&moment);
    explore_note("  copy: %s", kv_status_name(status));
    check_status(status, "kvstore_hold_begin");
    if (status != KV_OK)
        return;
    bool done = true;
    for (uint32_t file = 0; file < kvstore_datafiles(run.store); file++)
        done = read_copy(hold, file) && done;
    kvstore_hold_end(hold);
    for (uint32_t file = 0; done && file < kvstore_datafiles(run.store); file++)
        done = write_copy(file);
    if (done)
        judge_copy(&moment);
}

/* If the chapters say that a data file is what it was when it was copied, it is. */
static void compare_with_copies(void)
{
    static uint8_t content[COPY_BYTES];
    for (uint32_t file = 0; file < DATAFILES_MOST; file++) {
        char path[64];
        const struct copy *copy = &copies[file];
        struct file_identity then, now;
        struct file_chapters chapters_then, chapters_now;
        snprintf(path, sizeof path, STORE_PATH "/data.%04" PRIu32, file);
        int descriptor = copy->bytes > 0 ? open(path, O_RDONLY) : -1;
        if (descriptor < 0)
            continue;
        ssize_t got = pread(descriptor, content, sizeof content, 0);
        close(descriptor);
        if (got < (ssize_t)copy->bytes ||
            fileheader_read_identity(copy->content, &then) != FILEHEADER_VALID ||
            fileheader_read_identity(content, &now) != FILEHEADER_VALID || then.salt != now.salt)
            continue;
        file_chapters_read(copy->content, then.salt, &chapters_then);
        file_chapters_read(content, now.salt, &chapters_now);
        uint64_t chapter = file_chapters_at(&chapters_then, copy->bytes);
        if (chapter != 0 && chapter == file_chapters_at(&chapters_now, copy->bytes) &&
            memcmp(copy->content + FILE_HEADER_BYTES, content + FILE_HEADER_BYTES,
                   copy->bytes - FILE_HEADER_BYTES) != 0)
            explore_fail("file %" PRIu32 " has the chapter of its copy, and is another", file);
    }
}

static void maintain(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        unsigned part = run.life * PARTS_OF_LIFE + WORKERS_MOST * PARTS_EACH + i;
        struct model_random random = random_of(part);
        if (!explore_has_part(part) || model_one_in(&random, 2))
            continue;
        explore_sleep_ms(model_below(&random, 4));
        if (model_one_in(&random, 4))
            copy_store();
        else
            compact(&random);
    }
}

/* Lives ---------------------------------------------------------------------------------------- */

static bool open_store(const char *path, struct kvstore **store)
{
    struct kv_error error = {.text = ""};
    struct kvstore_options options = run.options;
    enum kv_status status = kvstore_open(path, &options, store, &error);
    explore_note(" open: %s %s", kv_status_name(status), error.text);
    if (status == KV_OK) {
        run.store_is_there = true;
        return true;
    }
    if (!is_excused(status))
        explore_fail("the store cannot be opened: status %d: %s", status, error.text);
    return false;
}

static void live(void *unused)
{
    (void)unused;
    struct kv_error error = {.text = ""};
    if (!open_store(STORE_PATH, &run.store)) {
        run.ended = true;
        return;
    }
    judge(run.store);
    for (uintptr_t i = 0; i < run.workers; i++)
        explore_thread(run.life + 1, work, (void *)i);
    explore_thread(run.life + 1, maintain, NULL);
    if (run.death == DIES_AT_A_STEP)
        explore_may_kill(run.life + 1);
    explore_wait_for_threads();
    enum kv_status status = kvstore_close(run.store, &error);
    explore_note(" close: %s %s", kv_status_name(status), error.text);
    if (status == KV_OK)
        model_note_all_durable();
    else if (!is_excused(status))
        explore_fail("the store cannot be closed: status %d: %s", status, error.text);
    run.ended = true;
}

static void choose_options(struct model_random *random)
{
    run.options = (struct kvstore_options){
        .create = true,
        .datafiles = 1 + model_below(random, DATAFILES_MOST),
        .durability = (enum kvstore_durability)model_below(random, 3),
        .io = (enum kvstore_io)model_below(random, 2),
        .locking = (enum kvstore_locking)model_below(random, (uint32_t)locking_count()),
        .sync_interval_ms = 1 + model_below(random, 20),
        .sweep_interval_ms = 1 + model_below(random, 50),
        .compact_min_bytes = 8192,
        .compact_dead_percent = model_one_in(random, 2) ? 20 : 100};
    if (model_one_in(random, 4))
        run.options.cache_bytes = KVSTORE_MIN_CACHE_BYTES;
    if (model_one_in(random, 3))
        run.options.direct = KVSTORE_DIRECT_OWNER;
    if (model_one_in(random, 6)) {
        run.options.max_bytes = KVSTORE_MIN_BOUND_BYTES;
        run.options.evict = (enum kvstore_evict)(1 + model_below(random, 2));
    }
    if (model_one_in(random, 6))
        run.options.keep_changes_ms = 1 + model_below(random, 1000);
}

static void choose_faults(struct model_random *random)
{
    run.faults = (struct machine_faults){0};
    if (model_one_in(random, 2))
        run.faults.interrupts = 2 + model_below(random, 50);
    if (model_one_in(random, 2))
        return;
    if (model_one_in(random, 3))
        run.faults.syncs = 5 + model_below(random, 40);
    if (model_one_in(random, 4))
        run.faults.dir_syncs = 2 + model_below(random, 10);
    if (model_one_in(random, 4))
        run.faults.write_back = 2 + model_below(random, 20);
    if (model_one_in(random, 4))
        run.faults.reads = 10 + model_below(random, 200);
    if (model_one_in(random, 4))
        run.faults.writes = 10 + model_below(random, 100);
    if (model_one_in(random, 4))
        run.faults.disk_bytes =
            (uint64_t)run.options.datafiles * 65536 + model_below(random, 1 << 20);
}

/* A process is there no more. */
static void bury(unsigned process, struct model_random *random)
{
    bool was_killed = !run.ended;
    bool failed = machine_has_failed();
    machine_bury(process);
    explore_forget_statics();
    log_set_level(LOG_LEVEL_ERROR);
    bool loses_power = !model_one_in(random, 3);
    explore_note("%s%s", was_killed ? "killed" : "ended",
                 loses_power ? ", and the power goes" : "");
    run.all_done &= !failed && !loses_power;
    if (!loses_power)
        return;
    if (explore_keeps_time() && !failed && run.options.durability != KVSTORE_SYNC_NONE &&
        was_killed && run.is_judged) {
        uint64_t late_ns = run.options.sync_interval_ms * UINT64_C(1000000) + INTERVAL_SLACK_NS;
        model_note_durable_until(explore_clock_ns() - late_ns);
    }
    machine_cut_power();
}

static void lead_life(unsigned life)
{
    struct model_random random = random_of(1000 + life);
    unsigned process = life + 1;
    run.life = life;
    run.ended = run.is_judged = false;
    run.death = (enum death)(model_below(&random, 5) + 1) / 2; /* LIVES_ON: one in five */
    run.workers = 1 + model_below(&random, WORKERS_MOST);
    run.actions = 1 + model_below(&random, ACTIONS_MOST);
    if (run.waits_together && model_one_in(&random, 2))
        run.actions = ACTIONS_MOST;
    machine_set_faults(&run.faults);
    if (run.death == DIES_AT_A_CALL)
        machine_die_at(1 + model_below(&random, 1u << (1 + model_below(&random, 9))));
    explore_note("life %u: %u workers", life, run.workers);
    explore_thread(process, live, NULL);
    explore_wait_for_threads();
    if (!run.ended && !explore_is_gone(process))
        explore_fail("a process ended by itself");
    bury(process, &random);
}

/* Without faults the store opens, and everything is there. The disk may still have to tell of pages
 * that it refused before: once for each file. */
static void look_at_the_end(void)
{
    struct kv_error error = {.text = ""};
    run.faults = (struct machine_faults){0};
    machine_set_faults(&run.faults);
    if (!run.store_is_there)
        return;
    for (unsigned left = run.options.datafiles + 2; left > 0; left--) {
        run.is_strict = left <= 2;
        if (!open_store(STORE_PATH, &run.store))
            continue;
        judge(run.store);
        enum kv_status status = kvstore_close(run.store, &error);
        explore_note(" close: %s %s", kv_status_name(status), error.text);
        if (status == KV_OK && left > 2)
            left = 3;
        else if (status != KV_OK && !is_excused(status))
            explore_fail("the store cannot be closed: status %d: %s", status, error.text);
        run.all_done &= status == KV_OK;
    }
    compare_with_copies();
}

/* Making a store takes longer than the rest of a schedule, so it is made once for each number of
 * data files: by the first schedule of a process, of whose steps none depends. */
static void keep_stores(void)
{
    static bool done;
    if (done)
        return;
    explore_quietly(true);
    for (uint32_t datafiles = 1; datafiles <= DATAFILES_MOST; datafiles++) {
        machine_begin();
        run.options = (struct kvstore_options){.create = true, .datafiles = datafiles};
        if (open_store(STORE_PATH, &run.store) && kvstore_close(run.store, NULL) == KV_OK)
            machine_keep(datafiles);
        explore_forget_statics();
    }
    explore_quietly(false);
    done = true;
}

static void run_machine(void)
{
    keep_stores();
    log_set_level(LOG_LEVEL_ERROR);
    memset(&run, 0, sizeof run);
    run.seed = (uint64_t)explore_random(UINT32_MAX) << 32 | explore_random(UINT32_MAX);
    struct model_random random = {run.seed};
    machine_begin();
    model_begin();
    run.all_done = true;
    choose_options(&random);
    choose_faults(&random);
    for (uint32_t file = 0; file < DATAFILES_MOST; file++)
        copies[file].bytes = 0;
    run.clock_jumps = model_one_in(&random, 4);
    run.waits_together = run.options.durability == KVSTORE_SYNC_ALWAYS &&
                         run.options.datafiles > 1 && !model_one_in(&random, 3);
    if (!model_one_in(&random, 16))
        run.store_is_there = machine_put_back(run.options.datafiles);
    unsigned lives = 1 + model_below(&random, LIVES_MOST - 1);
    if (run.clock_jumps) /* what was gone for the judge of one life would be back in the next */
        lives = 1;
    explore_note("%u data files, sync %d, io %d, direct %d, evict %d", run.options.datafiles,
                 run.options.durability, run.options.io, run.options.direct, run.options.evict);
    for (unsigned life = 0; life < lives; life++)
        lead_life(life);
    look_at_the_end();
    machine_end();
}

EXPLORE_HARNESS(explore_machine) = {
    .name = "machine",
    .invariant = "what a store promised is there after kill -9 and power cuts on failing disks",
    .run = run_machine,
    .most_in_a_process = 200,
    .most_still_ms = 1,
};
