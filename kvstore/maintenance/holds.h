/*
 * holds: the readers of data files as they were at one moment (kvstore_hold_begin), for which the
 * blocks of replaced logs (old_logs.h) are kept. A hold that is not touched for HOLD_LAPSE_NS
 * lapses: its reader may be stopped, and the disk would fill.
 *
 * Threads: any; struct holds has a mutex, which is taken last.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_HOLDS_H
#define MQKV_KVSTORE_MAINTENANCE_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#define HOLD_LAPSE_NS UINT64_C(60000000000)

struct holds;

/* A part of a kvstore_hold; starts from {0}. */
struct listed_hold {
    struct listed_hold *next;
    uint64_t touched_ns; /* clock_monotonic_ns */
    bool lapsed;
};

/* Makes an empty list. NULL: out of memory. Freed by holds_free when no hold is left. */
struct holds *holds_create(void);
void holds_free(struct holds *holds);

/* Adds `held`, which counts as just touched; removes it. */
void holds_add(struct holds *holds, struct listed_hold *held);
void holds_remove(struct holds *holds, struct listed_hold *held);

/* Notes that the reader of `held` is there. False: the hold has lapsed, and logs that it reads may
 * be gone. */
bool holds_touch(struct holds *holds, struct listed_hold *held);

/* Whether replaced logs must be kept now. Holds that were not touched for too long lapse here. */
bool holds_any(struct holds *holds);

#endif
