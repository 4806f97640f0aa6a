/*
 * orphans: queues and segments of clients that died before the handshake was over: nobody else
 * would remove them, and dead queues keep charging their user's budget.
 */
#ifndef MQKV_SERVERK_SESSION_ORPHANS_H
#define MQKV_SERVERK_SESSION_ORPHANS_H

#include <sys/types.h>

/* At the start: unlinks the reply queues and segments under the queue name whose process is gone,
 * as far as they can be listed (/dev/mqueue mounted, /dev/shm) in half a second each, and this user
 * may. Returns how many. */
unsigned orphans_remove(const char *queue_name);

/* The same for one process that has died, without a look at any directory: others may have put very
 * many names there. */
unsigned orphans_remove_of(const char *queue_name, pid_t pid);

#endif
