/*
 * syscall_filter: the system calls that the daemon makes, and no others (seccomp(2)). A call that
 * is not among them is not executed: the daemon says in its log which it was and ends by SIGSYS,
 * all of it, since one thread less would leave its locks held; what it acknowledged is in the page
 * cache by then, as with kill -9.
 */
#ifndef MQKV_SERVERK_SANDBOX_SYSCALL_FILTER_H
#define MQKV_SERVERK_SANDBOX_SYSCALL_FILTER_H

#include <stdbool.h>

#include "mqkv/error.h"

/* Holds for the calling thread and all that it starts from now on; needs PR_SET_NO_NEW_PRIVS.
 * forks: new processes are allowed, not only threads. nice: so are nice values. network: so are
 * sockets that are connected, not listened at. *entered: false
 * where the kernel has no filters, or whoever started the daemon forbade them. KV_NO_MEMORY. */
enum kv_status syscall_filter_enter(bool forks, bool nice, bool network, bool *entered,
                                    struct kv_error *error);

#endif
