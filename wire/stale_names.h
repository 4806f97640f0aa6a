/*
 * stale_names: reply queues, segments and rings that this user's processes left when they were
 * killed in a handshake, between making the queue and unlinking its name. They cost the user's
 * bytes of queues, and the system's number of them, until somebody removes them; a server of
 * another user may not.
 *
 * Removed is only what belongs to this process's uid, is older than a second, has a name of the
 * form of a client's, whose process does not exist here, and, if it is a queue, carries nobody's
 * lock (a process of another PID namespace holds it). Under other names than `base` a queue must
 * also be as large as those of this library.
 */
#ifndef MQKV_WIRE_STALE_NAMES_H
#define MQKV_WIRE_STALE_NAMES_H

#include <stdbool.h>

struct stale_names {
    unsigned queues, segments; /* segments: rings, too */
};

/* Removes them: those that /dev/mqueue and /dev/shm list, and where the queues cannot be listed
 * those under `base` whose names are likely. Returns how many. Takes some milliseconds. */
struct stale_names wire_stale_names_remove(const char *base);

/* The same, but not more than once a second in this process. False: nothing was removed. */
bool wire_stale_names_remove_again(const char *base);

#endif
