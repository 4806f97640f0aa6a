/*
 * Whole stores on a simulated machine (machine.h): processes that open, write, compact, back up and
 * close a store, are killed or lose power at any step, and find there what they were promised.
 */
#include "tests/explore/explore_machine.h"

#include <string.h>
#include <time.h>

#include "common/report/log.h"
#include "tests/explore/explore.h"
#include "tests/explore/explore_machine_backup.h"
#include "tests/explore/explore_machine_follower.h"
#include "tests/explore/explore_machine_logs.h"
#include "tests/explore/explore_machine_reads.h"
#include "tests/explore/explore_machine_upgrade.h"
#include "tests/explore/explore_machine_writes.h"
#include "tests/support/store_variants.h"

/* How much later than promised a write may be on disk: syncs take time, and wait for each other. */
#define INTERVAL_SLACK_NS UINT64_C(10000000)

struct machine_run run;

/* The same for a part, whatever the others do. */
struct model_random machine_part_random(unsigned part)
{
    return (struct model_random){run.seed ^ part * UINT64_C(0x9e3779b97f4a7c15)};
}

uint64_t machine_realtime_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What the disk's state excuses. */
bool machine_excuses(enum kv_status status)
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
    case KV_BUSY: /* a hold has lapsed */
        return !explore_keeps_time();
    default:
        return false;
    }
}

void machine_check_status(enum kv_status status, const char *what)
{
    if (status != KV_OK && !machine_excuses(status))
        explore_fail("%s gives status %d (%s)", what, status, kv_status_name(status));
}

/* Maintenance ---------------------------------------------------------------------------------- */

static void compact(struct model_random *random)
{
    struct kv_error error = {.text = ""};
    uint32_t file = model_below(random, kvstore_datafiles(run.store));
    enum kv_status status = kvstore_compact(run.store, file, &error);
    explore_note("  compact %u: %s", file, kv_status_name(status));
    bool was_undone = status == KV_BUSY && run.transacts; /* a transaction that failed meanwhile */
    if (status != KV_OK && !was_undone && !machine_excuses(status))
        explore_fail("a compaction gives status %d: %s", status, error.text);
}

static void maintain(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        unsigned part = run.life * PARTS_OF_LIFE + WORKERS_MOST * PARTS_EACH + i;
        struct model_random random = machine_part_random(part);
        if (!explore_has_part(part) || model_one_in(&random, 2))
            continue;
        explore_sleep_ms(model_below(&random, 4));
        if (model_one_in(&random, 4))
            machine_back_up();
        else if (model_one_in(&random, 3))
            machine_follow();
        else
            compact(&random);
    }
}

/* Lives ---------------------------------------------------------------------------------------- */

static bool open_store(const char *path, struct kvstore **store)
{
    struct kv_error error = {.text = ""};
    struct kvstore_options options = run.options;
    machine_read_logs();
    enum kv_status status = kvstore_open(path, &options, store, &error);
    explore_note(" open: %s %s", kv_status_name(status), error.text);
    if (status == KV_OK) {
        run.store_is_there = true;
        return true;
    }
    if (!machine_excuses(status))
        explore_fail("the store cannot be opened: status %d: %s", status, error.text);
    return false;
}

static void live(void *unused)
{
    (void)unused;
    struct kv_error error = {.text = ""};
    if (!open_store(run.path, &run.store)) {
        run.ended = true;
        return;
    }
    machine_judge_store(run.store);
    struct model_random random = machine_part_random(2000 + run.life);
    machine_judge_upgraded();
    if (model_one_in(&random, 2))
        machine_judge_backup();
    for (uintptr_t i = 0; i < run.workers; i++)
        explore_thread(run.life + 1, machine_work, (void *)i);
    explore_thread(run.life + 1, maintain, NULL);
    if (run.death == DIES_AT_A_STEP)
        explore_may_kill(run.life + 1);
    explore_wait_for_threads();
    enum kv_status status = kvstore_close(run.store, &error);
    explore_note(" close: %s %s", kv_status_name(status), error.text);
    if (status == KV_OK)
        model_note_all_durable();
    else if (!machine_excuses(status))
        explore_fail("the store cannot be closed: status %d: %s", status, error.text);
    if (status == KV_OK && model_one_in(&random, 8))
        machine_upgrade(model_one_in(&random, 2));
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
    if (model_one_in(random, 4))
        run.options.keep_changes_ms =
            model_one_in(random, 2) ? 2 * 3600000 : 1 + model_below(random, 1000);
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
    run.goes_on_smoothly &= !failed && !loses_power && !was_killed;
    if (!loses_power)
        return;
    if (explore_keeps_time() && !failed && run.options.durability != KVSTORE_SYNC_NONE &&
        was_killed && run.is_judged) {
        uint64_t late_ns = run.options.sync_interval_ms * UINT64_C(1000000) + INTERVAL_SLACK_NS;
        model_note_durable_until(explore_clock_ns() - late_ns);
    }
    machine_cut_power();
    explore_count(1, "cuts of the power");
}

static void lead_life(unsigned life)
{
    struct model_random random = machine_part_random(1000 + life);
    unsigned process = life + 1;
    run.life = life;
    run.ended = run.is_judged = false;
    run.death = (enum machine_death)(model_below(&random, 5) + 1) / 2; /* LIVES_ON: one in five */
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

/* Of what a backup that has died left, too, the disk may still have to tell: once for each file,
 * and for the manifest. */
static void back_up_at_the_end(void)
{
    run.is_strict = false;
    for (unsigned left = run.options.datafiles + 1; left > 0 && !machine_back_up();)
        left--;
    run.is_strict = true;
    machine_back_up();
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
        if (!open_store(run.path, &run.store))
            continue;
        machine_judge_store(run.store);
        machine_judge_upgraded();
        machine_judge_backup();
        if (left == 1) {
            back_up_at_the_end();
            machine_judge_backup();
        }
        enum kv_status status = kvstore_close(run.store, &error);
        explore_note(" close: %s %s", kv_status_name(status), error.text);
        if (status == KV_OK && left > 2)
            left = 3;
        else if (status != KV_OK && !machine_excuses(status))
            explore_fail("the store cannot be closed: status %d: %s", status, error.text);
        run.all_done &= status == KV_OK;
    }
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
        run = (struct machine_run){.path = STORE_PATH,
                                   .options = {.create = true, .datafiles = datafiles}};
        if (open_store(run.path, &run.store) && kvstore_close(run.store, NULL) == KV_OK)
            machine_keep(datafiles);
        explore_forget_statics();
    }
    machine_keep_old_stores();
    explore_quietly(false);
    done = true;
}

static void run_machine(void)
{
    keep_stores();
    log_set_level(LOG_LEVEL_ERROR);
    memset(&run, 0, sizeof run);
    run.path = STORE_PATH;
    run.seed = (uint64_t)explore_random(UINT32_MAX) << 32 | explore_random(UINT32_MAX);
    struct model_random random = {run.seed};
    machine_begin();
    model_begin();
    run.all_done = true;
    choose_options(&random);
    choose_faults(&random);
    machine_forget_backups();
    machine_forget_follower();
    machine_forget_upgrades();
    run.clock_jumps = model_one_in(&random, 4);
    run.transacts = model_one_in(&random, 2);
    run.waits_together = run.options.durability == KVSTORE_SYNC_ALWAYS &&
                         run.options.datafiles > 1 && !model_one_in(&random, 3);
    if (run.options.datafiles == OLD_DATAFILES && run.options.max_bytes == 0 &&
        model_one_in(&random, 4)) {
        machine_put_old_store(model_one_in(&random, 2));
        run.store_is_there = true;
    } else if (!model_one_in(&random, 16)) {
        run.store_is_there = machine_put_back(run.options.datafiles);
    }
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
