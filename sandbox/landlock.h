/*
 * landlock: confines this process to some directories (landlock(7)): what no rule allows, the
 * kernel refuses from landlock_enter on, with EACCES (a file opened before stays usable). The C
 * library has no wrapper, and its headers may be older than the kernel.
 */
#ifndef MQKV_SANDBOX_LANDLOCK_H
#define MQKV_SANDBOX_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"

/* What a rule may allow below its directory, or of its file. */
enum landlock_access {
    LANDLOCK_WRITE = 1u << 1,  /* open for writing */
    LANDLOCK_READ = 1u << 2,   /* open for reading */
    LANDLOCK_LIST = 1u << 3,   /* list the directory */
    LANDLOCK_REMOVE = 1u << 5, /* unlink, rename away, replace */
    LANDLOCK_MAKE = 1u << 8,   /* make a regular file */
    LANDLOCK_CUT = 1u << 14    /* truncate */
};

struct landlock {
    /* Of the kernel. 0: the kernel has no Landlock or forbids it; the calls below do nothing. */
    int abi;
    uint64_t handled; /* what is forbidden where no rule allows it */
    int ruleset;
};

/* network: connections may be made. files: opening a file for reading or writing is confined too;
 * else only making, removing,
 * renaming, truncating, listing and executing, networks, and signals to others, as far as the
 * kernel knows how. KV_LIMIT, KV_NO_MEMORY. */
enum kv_status landlock_begin(struct landlock *landlock, bool files, bool network,
                              struct kv_error *error);

/* Allows `access`, enum landlock_access, below the directory, or of the file. One that cannot be
 * opened is passed over: what is not there needs no rule. So is a file to which `access` allows
 * what is done in directories: whoever needs the directory finds out. KV_LIMIT, KV_NO_MEMORY. */
enum kv_status landlock_allow(const struct landlock *landlock, const char *path, uint64_t access,
                              struct kv_error *error);

/* Confines the calling thread and all that it starts from now on; needs PR_SET_NO_NEW_PRIVS. Ends
 * the use of *landlock; abi becomes 0 where the kernel refuses. */
void landlock_enter(struct landlock *landlock);

/* Instead: gives up. */
void landlock_abandon(struct landlock *landlock);

#endif
