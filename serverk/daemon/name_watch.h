/*
 * name_watch: whether the shared memory of the index, the daemon's queues and its data files still
 * have their names. An administrator's rm, a cleaner of /dev/shm, or logind at the end of the
 * user's last session (RemoveIPC) may take them away: who has mapped the index reads on, and what
 * was sent is answered, but nobody else finds the daemon, and a next one would not find the index.
 * That is seen at once, and logged, and they are made anew: at once, and then, for as long as that
 * fails or somebody removes them again, with these pauses. Data files cannot be made anew, nor a
 * directory moved back: that is only logged.
 *
 * Threads: the main thread only.
 */
#ifndef MQKV_SERVERK_DAEMON_NAME_WATCH_H
#define MQKV_SERVERK_DAEMON_NAME_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/store_engine.h"
#include "serverk/lanes/lanes.h"

#define NAME_WATCH_INDEX_PAUSE_MS 10000u
#define NAME_WATCH_LANES_PAUSE_MS 1000u

/* While either descriptor is readable, name_watch_tick is to be called; -1: there is no way to
 * watch. */
struct name_watch {
    int events;
    int timer;
    bool timer_runs;
    const char *dir;
    bool index_is_gone, lanes_are_gone, data_are_gone;
    uint64_t index_asked_ms, lanes_asked_ms; /* clock_monotonic_coarse_ms; 0: never */
};

#define NAME_WATCH_NONE ((struct name_watch){.events = -1, .timer = -1})

/* dir: the data directory; kept. */
struct name_watch name_watch_open(const struct store_engine *engine, const struct lanes *lanes,
                                  const char *dir);
void name_watch_close(struct name_watch *watch);

/* Looks at what has come. */
void name_watch_tick(struct name_watch *watch, const struct store_engine *engine,
                     struct lanes *lanes);

#endif
