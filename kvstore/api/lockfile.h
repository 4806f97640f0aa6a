/*
 * lockfile: lets one process at a time have a store open. The lock is an fcntl lock on the file
 * "lock" in the store's directory, which the kernel releases however the process ends; the file's
 * text is the owner's pid, for people. Since such locks never refuse the process that holds them,
 * and are lost when it closes any descriptor of the file, a list of the directories open in this
 * process is asked first.
 */
#ifndef MQKV_KVSTORE_API_LOCKFILE_H
#define MQKV_KVSTORE_API_LOCKFILE_H

#include <stdbool.h>

#include "mqkv/error.h"

struct lockfile;

/* Takes the lock of the store in `dir`, whose descriptor is dir_fd. `shared`: for a read-only
 * store, which excludes only writers; needs no write permission, and no lock file where there is
 * none. Fails with a sentence in `error`: KV_BUSY (with the owner's pid) ... */
enum kv_status lockfile_acquire(const char *dir, int dir_fd, bool shared,
                                struct lockfile **lockfile, struct kv_error *error);

/* NULL is harmless. */
void lockfile_release(struct lockfile *lockfile);

#endif
