/*
 * orphans: queues and segments of clients that died before the server had unlinked their names: for good
 * where the server is of another user, who may not unlink them, or is gone. They count against what their user
 * may have.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_ORPHANS_H
#define MQKV_CLIENTK_PROGRAM_OPS_ORPHANS_H

struct orphans {
    unsigned queues, segments;
};

/* Removes the reply queues and segments of `base` that belong to this user and whose process has ended, as far
 * as this PID namespace tells, and that no process holds a lock on. What /dev/mqueue and /dev/shm do not list
 * stays. */
struct orphans orphans_remove_own(const char *base);

#endif
