/*
 * holds: who reads data files as they were at one moment (kvstore_hold_begin), and for how long
 * the blocks of replaced logs (old_logs.h) are therefore kept. A hold of which nothing is heard for
 * HOLD_LAPSE_NS lapses: its reader may be stopped, and the disk would fill.
 *
 * Threads: any; a mutex of its own, taken last.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_HOLDS_H
#define MQKV_KVSTORE_MAINTENANCE_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#define HOLD_LAPSE_NS UINT64_C(60000000000)

struct holds;

/* A part of a kvstore_hold; starts from {0}. */
struct hold_watch {
    struct hold_watch *next;
    uint64_t touched_ns; /* clock_monotonic_ns */
    bool lapsed;
};

/* NULL: out of memory. Freed when no hold is left. */
struct holds *holds_create(void);
void holds_free(struct holds *holds);

/* Adds a hold, which counts as just touched; takes one out. */
void holds_add(struct holds *holds, struct hold_watch *held);
void holds_remove(struct holds *holds, struct hold_watch *held);

/* Something was heard of the hold. False: it has lapsed, and logs that it reads may be gone. */
bool holds_touch(struct holds *holds, struct hold_watch *held);

/* Whether replaced logs must be kept now. Holds that nothing was heard of lapse here. */
bool holds_any(struct holds *holds);

#endif
