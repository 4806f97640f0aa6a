/*
 * store_leftovers: shared memory that held the index of a store (shared_store.h) which is no more.
 * A daemon that stops takes its own away, one that was killed leaves it to the next daemon of the
 * store; if the store's directory is gone, nobody will come.
 *
 * An object is left for good only if all of this holds: it belongs to this process's uid; nobody
 * holds its lock; no process here has the pid of its daemon; and its directory is gone, while the
 * file system that the directory was on is there (by the device in the object's name, where the
 * path ends now): a volume that is not mounted, or a container with other mounts, hides the
 * directories of stores that are well. Where a directory is hidden all the same, on its own device,
 * and its daemon was killed, the next start of that store reads its logs, which takes longer.
 */
#ifndef MQKV_KVSTORE_SHARED_STORE_LEFTOVERS_H
#define MQKV_KVSTORE_SHARED_STORE_LEFTOVERS_H

#include <stdint.h>

struct store_leftovers {
    unsigned objects; /* removed */
    uint64_t bytes;
    unsigned unsure_objects; /* of daemons that have ended; the file system is not here */
    uint64_t unsure_bytes;
    char unsure_name[64]; /* of one of them, in /dev/shm */
};

/* The descriptor of an object is its daemon's: holds the object's lock (F_OFD_SETLK) until the
 * descriptor is closed, in any PID namespace for all to see. */
void store_leftovers_lock(int fd);

/* Removes what is left for good. Looks at names in /dev/shm for within_ms milliseconds at most. */
struct store_leftovers store_leftovers_remove(uint32_t within_ms);

#endif
