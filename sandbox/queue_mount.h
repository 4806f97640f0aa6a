/*
 * queue_mount: where the file system of message queues is mounted, which a process that is confined
 * to some directories (landlock.h) needs to open queues.
 */
#ifndef MQKV_SANDBOX_QUEUE_MOUNT_H
#define MQKV_SANDBOX_QUEUE_MOUNT_H

#include <stdbool.h>
#include <stddef.h>

/* Where the file system of this queue of the process is mounted, into path. False: nowhere that is
 * seen here; then no rule can allow its queues, and opening files cannot be confined. */
bool queue_mount_find(int queue, char *path, size_t size);

/* A descriptor of this process that is a message queue; -1: it has none. */
int queue_mount_any_queue(void);

#endif
