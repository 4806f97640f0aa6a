/*
 * bridge_sandbox: what kresp gives up once it listens, before it reads the first byte of a client:
 * new privileges, core files, system calls that it never makes (syscall_filter.h), new sockets, and
 * files (landlock.h). It keeps the right to read any file that its user may read, since the store
 * may lie anywhere, and to write message queues and shared memory, but no other file. A part that
 * the kernel lacks is left out.
 */
#ifndef MQKV_KRESP_BRIDGE_BRIDGE_SANDBOX_H
#define MQKV_KRESP_BRIDGE_BRIDGE_SANDBOX_H

#include "mqkv/error.h"

/* Enters the sandbox for good. The caller is the only thread of the process and has a queue of
 * serverk open. socket_path: the file that may be removed at the end. KV_LIMIT, KV_NO_MEMORY: the
 * sandbox could not be made. */
enum kv_status bridge_sandbox_enter(const char *socket_path, struct kv_error *error);

#endif
