/*
 * syscall_filter: the system calls that serverk and kresp make, and no others (seccomp(2)). A call
 * that is not among them is not executed: the process says in its log which it was and ends by
 * SIGSYS, all of it, since one thread less would leave its locks held; what serverk acknowledged is
 * in the page cache by then, as with kill -9.
 */
#ifndef MQKV_SANDBOX_SYSCALL_FILTER_H
#define MQKV_SANDBOX_SYSCALL_FILTER_H

#include <stdbool.h>

#include "mqkv/error.h"

/* What a process needs beside files, queues and memory. */
struct syscall_needs {
    bool forks;    /* new processes, not only threads */
    bool nice;     /* nice values */
    bool connects; /* sockets that are connected, not listened at */
    bool serves;   /* connections to sockets that are listened at already; libclientk's calls */
};

/* Holds for the calling thread and all that it starts from now on; needs PR_SET_NO_NEW_PRIVS.
 * *entered: false where the kernel has no filters, or whoever started the process forbade them.
 * KV_NO_MEMORY. */
enum kv_status syscall_filter_enter(const struct syscall_needs *needs, bool *entered,
                                    struct kv_error *error);

#endif
