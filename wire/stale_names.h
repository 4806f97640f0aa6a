/*
 * stale_names: reply queues, segments and rings that this user's processes left behind when they
 * were killed in a handshake, between creating the object and unlinking its name. Queues count
 * against the user's bytes and the system's number of queues until somebody removes them; a server
 * of another user may not.
 *
 * Only what meets all of these is removed: it belongs to this process's uid; it is older than a
 * second; its name is of the form of a client's; no such process exists here; and, unless it is
 * a segment, nobody holds a lock on it (a process of another PID namespace may). Under other names
 * than `base` a queue must also be as large as those of this library.
 */
#ifndef MQKV_WIRE_STALE_NAMES_H
#define MQKV_WIRE_STALE_NAMES_H

#include <stdbool.h>

struct stale_names {
    unsigned queues, segments; /* segments: rings, too */
};

/* Removes those that /dev/mqueue and /dev/shm list. Where queues cannot be listed, tries the likely
 * names under `base`. Returns how many it removed. Takes some milliseconds. */
struct stale_names wire_stale_names_remove(const char *base);

/* The same, but not more than once a second in this process. False: nothing was removed. */
bool wire_stale_names_remove_again(const char *base);

#endif
