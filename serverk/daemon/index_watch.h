/*
 * index_watch: whether the shared memory of the index still has its name. An administrator's rm, a
 * cleaner of /dev/shm, or logind at the end of the user's last session (RemoveIPC) may take it
 * away: who has mapped it reads on, but nobody else finds it, and a next daemon would not, either.
 * That is seen at once, and logged.
 *
 * Threads: the main thread only.
 */
#ifndef MQKV_SERVERK_DAEMON_INDEX_WATCH_H
#define MQKV_SERVERK_DAEMON_INDEX_WATCH_H

#include "engine/store_engine.h"

/* A descriptor that is readable when index_watch_tick is to be called; -1: there is nothing to
 * watch, or no way to. The caller closes it. */
int index_watch_open(const struct store_engine *engine);

/* Reads what has come, and logs, once, that the name is gone. */
void index_watch_tick(int fd, const struct store_engine *engine);

#endif
