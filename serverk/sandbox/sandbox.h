/*
 * sandbox: what the daemon gives up before it reads the first byte that others wrote (a data file,
 * a message): privileges that a program could give it, system calls that it never makes
 * (syscall_filter), directories that are not its own (landlock), and core files, which would hold
 * values. Where the kernel lacks one of them the daemon does without it, and says so in `stats`.
 */
#ifndef MQKV_SERVERK_SANDBOX_SANDBOX_H
#define MQKV_SERVERK_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/error.h"
#include "serverk/config/options.h"

/* What is on. */
struct sandbox {
    bool wanted; /* --sandbox */
    bool no_new_privileges;
    bool syscall_filter;
    int landlock_abi;    /* 0: no Landlock */
    bool files_confined; /* by Landlock: opening too, not only making, removing and renaming */
    bool core_files;     /* a crash may leave one */
};

#define SANDBOX_TEXT_BYTES 160

/* Gives up what the options do not need, for good. To be called by the only thread of the process:
 * it holds for all that are started later. queue: a message queue of this process, by which the
 * file system of queues is found. *sandbox is filled in also with --sandbox off. KV_LIMIT,
 * KV_NO_MEMORY: not enough of it to do so. */
enum kv_status sandbox_enter(const struct server_options *options, int queue,
                             struct sandbox *sandbox, struct kv_error *error);

/* "system calls filtered (seccomp), files confined (Landlock ABI 6), no core files", into text;
 * which it returns. */
const char *sandbox_describe(const struct sandbox *sandbox, char text[SANDBOX_TEXT_BYTES]);

#endif
