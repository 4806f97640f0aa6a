/*
 * index_watch: whether the shared memory of the index still has its name. An administrator's rm, a
 * cleaner of /dev/shm, or logind at the end of the user's last session (RemoveIPC) may take it
 * away: who has mapped it reads on, but nobody else finds it, and a next daemon would not, either.
 * That is seen at once, and logged, and the engine is asked to make it anew: at once, and then, for
 * as long as it cannot or somebody removes it again, every INDEX_WATCH_PAUSE_MS.
 *
 * Threads: the main thread only.
 */
#ifndef MQKV_SERVERK_DAEMON_INDEX_WATCH_H
#define MQKV_SERVERK_DAEMON_INDEX_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/store_engine.h"

#define INDEX_WATCH_PAUSE_MS 10000u

/* While either descriptor is readable, index_watch_tick is to be called; -1: there is nothing to
 * watch, or no way to. */
struct index_watch {
    int events;
    int timer; /* runs while the name is gone */
    bool is_gone;
    uint64_t asked_ms; /* clock_monotonic_coarse_ms; 0: never */
};

#define INDEX_WATCH_NONE ((struct index_watch){.events = -1, .timer = -1})

struct index_watch index_watch_open(const struct store_engine *engine);
void index_watch_close(struct index_watch *watch);

/* Looks at what has come. */
void index_watch_tick(struct index_watch *watch, const struct store_engine *engine);

#endif
