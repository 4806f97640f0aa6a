/* What a log must keep, on a simulated machine (tests/explore/machine.h). */
#include "history.h"

static struct log the_log;

static void run_comes_back(void)
{
    history_begin();
    history_open(&the_log);
    for (int i = 0; i < 5; i++)
        history_add(&the_log, false);
    log_close(&the_log);
    history_open(&the_log);
    history_add(&the_log, false);
    history_add(&the_log, true);
    history_add(&the_log, false);
    log_close(&the_log);
    history_open(&the_log);
    log_close(&the_log);
    machine_end();
}

EXPLORE_HARNESS(comes_back) = {
    .name = "comes_back",
    .invariant = "what was appended is there when the log is opened again",
    .run = run_comes_back,
    .stores_in_order = true,
};

static void append_some(void *unused)
{
    (void)unused;
    history_open(&the_log);
    for (int i = 0; i < 4; i++)
        history_add(&the_log, false);
    log_close(&the_log);
}

/* Processes are killed in one of their calls, one after another. */
static void run_kill(void)
{
    history_begin();
    for (unsigned process = 1; process <= 3; process++) {
        machine_die_at(1 + explore_random(24));
        explore_thread(process, append_some, NULL);
        explore_wait_for_threads();
        machine_bury(process);
    }
    machine_die_at(0);
    append_some(NULL);
    history_open(&the_log);
    machine_end();
}

EXPLORE_HARNESS(killed) = {
    .name = "killed",
    .invariant = "what was acknowledged is there after kill -9, and after appends that follow",
    .run = run_kill,
    .stores_in_order = true,
};
