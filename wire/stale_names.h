/*
 * stale_names: reply queues, segments and rings that processes of this user left behind when they
 * were killed in a handshake, between creating the object and unlinking its name. Such queues count
 * against the user's bytes and the system's number of queues until somebody removes them, which a
 * server of another user may not do.
 *
 * An object is removed if it belongs to the uid of this process, is older than a second, and has
 * the name of a client whose process does not exist; unless it is a segment, nobody may hold a lock
 * on it either (a process of another PID namespace might). A queue whose name does not begin with
 * `base` must also have one of the geometries of this library.
 */
#ifndef MQKV_WIRE_STALE_NAMES_H
#define MQKV_WIRE_STALE_NAMES_H

#include <stdbool.h>

struct stale_names {
    unsigned queues, segments; /* segments: segments and rings */
};

/* Removes the stale objects that /dev/mqueue and /dev/shm list. Where queues cannot be listed,
 * tries likely names that begin with `base`. Returns how many it removed. Takes some
 * milliseconds. */
struct stale_names wire_stale_names_remove(const char *base);

/* Like wire_stale_names_remove, but at most once a second in this process. Returns true if an
 * object was removed. */
bool wire_stale_names_remove_again(const char *base);

#endif
