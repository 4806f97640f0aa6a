/*
 * watchdog: whether the workers still serve, for the service manager's watchdog. The main thread
 * looks twice in each of its periods: messages that waited at one look and wait at the next ones,
 * in the queues or set aside, while no worker looked into any queue, mean that all workers hang.
 * Not so while a reload is at work, for which writers wait; but what hung before still hangs then.
 *
 * Threads: the main thread only.
 */
#ifndef MQKV_SERVERK_DAEMON_WATCHDOG_H
#define MQKV_SERVERK_DAEMON_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "serverk/lanes/lanes.h"
#include "serverk/receive/aside.h"
#include "serverk/session/farewell.h"

/* Looks in a row without progress that are no hang yet: a whole period. */
#define WATCHDOG_PATIENCE 2u

/* Zeroed before the first look. */
struct watchdog {
    uint64_t progress; /* farewells_progress at the last look */
    unsigned stuck;    /* looks in a row at which messages waited and nothing had changed */
};

/* Looks once. aside NULL: nothing is set aside. reload_works: a reload is under way that has done
 * something since the last look. False: the workers hang; the first time the log says so. */
bool watchdog_look(struct watchdog *watchdog, const struct lanes *lanes, const struct aside *aside,
                   const struct farewells *farewells, bool reload_works);

#endif
