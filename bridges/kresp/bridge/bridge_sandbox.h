/*
 * bridge_sandbox: what kresp gives up once it listens, before the first client's byte is read: new
 * privileges, core files, system calls that it never makes (syscall_filter.h), new sockets, and
 * files: it reads any that its user may read, since the store lies anywhere, and writes none but
 * message queues and shared memory (landlock.h). Where the kernel lacks a part, it does without.
 */
#ifndef MQKV_KRESP_BRIDGE_BRIDGE_SANDBOX_H
#define MQKV_KRESP_BRIDGE_BRIDGE_SANDBOX_H

#include "mqkv/error.h"

/* For good; by the only thread of the process, which has a queue of serverk open. socket_path: is
 * removed at the end. KV_LIMIT, KV_NO_MEMORY: not enough of it to do so. */
enum kv_status bridge_sandbox_enter(const char *socket_path, struct kv_error *error);

#endif
