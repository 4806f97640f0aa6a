/* What the lecturer looks at beside check.c. */
#include "history.h"

static struct log the_log;
static bool with_replacements;

static void live(void *unused)
{
    (void)unused;
    history_open(&the_log);
    for (int i = 0; i < 5; i++)
        history_add(&the_log, with_replacements && explore_random(3) == 0);
    log_close(&the_log);
}

/* Processes die in one of their calls, and mostly the power goes: the disk has any of what it may
 * have. */
static void lose_power(bool replaces, const struct machine_faults *faults)
{
    history_begin();
    machine_set_faults(faults);
    with_replacements = replaces;
    for (unsigned process = 1; process <= 3; process++) {
        machine_die_at(1 + explore_random(40));
        explore_thread(process, live, NULL);
        explore_wait_for_threads();
        machine_bury(process);
        if (explore_random(3) > 0)
            machine_cut_power();
    }
    machine_die_at(0);
    live(NULL);
    machine_cut_power();
    history_open(&the_log);
    machine_end();
}

static void run_power(void)
{
    lose_power(false, &(struct machine_faults){0});
}

EXPLORE_HARNESS(power) = {
    .name = "power",
    .invariant = "what was acknowledged is there after the power went, and nothing that was not",
    .run = run_power,
    .stores_in_order = true,
};

static void run_replaced(void)
{
    lose_power(true, &(struct machine_faults){0});
}

EXPLORE_HARNESS(replaced) = {
    .name = "replaced",
    .invariant = "a log that is replaced has all of the old records or the new one",
    .run = run_replaced,
    .stores_in_order = true,
};

static void run_interrupted(void)
{
    history_begin();
    machine_set_faults(&(struct machine_faults){.interrupts = 2});
    live(NULL);
    live(NULL);
    history_open(&the_log);
    machine_end();
}

EXPLORE_HARNESS(interrupted) = {
    .name = "interrupted",
    .invariant = "calls that are interrupted, or transfer less, are gone on with",
    .run = run_interrupted,
    .stores_in_order = true,
};

/* A sync that fails tells of pages that may not be on disk, once: no later one does. */
static void run_failing_disk(void)
{
    static uint8_t record[LOG_MAX_RECORD_BYTES];
    size_t bytes;
    history_begin();
    history_open(&the_log);
    machine_set_faults(&(struct machine_faults){.syncs = 2});
    for (int i = 0; i < 6; i++) {
        uint32_t number = history.next++;
        history_make(number, record, &bytes);
        if (log_append(&the_log, record, bytes) == 0)
            history.records[history.count++] = number;
        else
            history.tried = number;
        if (history.tried != NOTHING_TRIED)
            break;
    }
    if (history.tried != NOTHING_TRIED)
        EXPLORE_CHECK(log_append(&the_log, record, bytes) != 0,
                      "after a failed sync, which told of it, an append says that it is on disk");
    machine_set_faults(&(struct machine_faults){0});
    machine_end();
}

EXPLORE_HARNESS(failing_disk) = {
    .name = "failing_disk",
    .invariant =
        "after a sync that failed no append says that it is on disk, until the log is opened",
    .run = run_failing_disk,
    .stores_in_order = true,
};
