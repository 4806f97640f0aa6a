/*
 * stale_names: queues and segments of clients that died before the server unlinked their names.
 * They stay for good if the server is gone, or of another user, who may not unlink them, and count
 * against the limits of their user.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_STALE_NAMES_H
#define MQKV_CLIENTK_PROGRAM_OPS_STALE_NAMES_H

struct stale_names {
    unsigned queues, segments;
};

/* Removes the reply queues and segments of the server queue `base` that belong to this user, whose
 * process has ended as far as this PID namespace shows, and that no process holds a lock on. Those
 * that /dev/mqueue and /dev/shm do not list stay. */
struct stale_names stale_names_remove_own(const char *base);

#endif
