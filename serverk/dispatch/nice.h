/*
 * nice: --nice: a worker runs at the nice value that the priority of its request stands for: 31
 * keeps the one that the daemon was started with, 0 means 19, in between in proportion. So requests
 * of low priority yield the CPU to those of high priority, and to other processes.
 *
 * On Linux a nice value belongs to a thread (setpriority(2), "C library/kernel differences").
 * Without privilege it can only rise; hence nice_permitted before the first worker starts.
 */
#ifndef MQKV_SERVERK_DISPATCH_NICE_H
#define MQKV_SERVERK_DISPATCH_NICE_H

#include <stdbool.h>

#include "mqkv/error.h"

/* The nice value of one worker thread. {0}: the switch is off. */
struct nice {
    bool on;
    int lowest;  /* nice value of the highest priority: that of the daemon */
    int current; /* of the thread */
};

/* KV_OK if threads of this process may lower their nice value again; KV_DENIED and what would
 * help. */
enum kv_status nice_permitted(struct kv_error *error);

/* Prepares *nice for a worker whose thread has the nice value of the calling one. */
void nice_init(struct nice *nice);

/* Returns the nice value for `priority` (above 31 counts as 31). */
int nice_of(const struct nice *nice, unsigned priority);

/* Gives the calling worker's thread the nice value for `priority`, where the switch is on: a system
 * call when the value changes, none else. */
void nice_follow(struct nice *nice, unsigned priority);

#endif
