/*
 * orphans: queues and segments of clients that died before the handshake was over: nobody else
 * would remove them, and dead queues keep charging their user's budget.
 */
#ifndef MQKV_SERVERK_SESSION_ORPHANS_H
#define MQKV_SERVERK_SESSION_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

/* Unlinks, at the start, the reply queues and segments under the queue name whose process is gone,
 * as far as they can be listed (/dev/mqueue mounted, /dev/shm) in half a second each, and this user
 * may. Returns how many. */
unsigned orphans_remove(const char *queue_name);

/* Processes that have died. */
struct dead_processes {
    const pid_t *pids;
    unsigned count;
    bool and_others; /* there were more than these */
};

/* The same for the processes *dead that have died. A directory in which others have put more than
 * ORPHANS_LISTED names is not listed; then the first numbers of each process are tried. The log has
 * a line a second of it at most. */
#define ORPHANS_LISTED 2048u
unsigned orphans_remove_of(const char *queue_name, const struct dead_processes *dead);

#endif
