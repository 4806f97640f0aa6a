/*
 * slots: the limit on requests that are alive at once (--dispatch thread and process). Each request
 * has a slot, and the receiving thread waits for a free slot. Meanwhile messages stay in the
 * kernel's queues; when those are full, senders wait.
 *
 * The slot that was released last is taken first, so that few slots are in use when few are needed.
 *
 * Threads: any. Locks: one of its own, under which nothing is unparked.
 */
#ifndef MQKV_LAB_DISPATCH_SLOTS_H
#define MQKV_LAB_DISPATCH_SLOTS_H

#include <stdint.h>

struct json;
struct slots;

struct slot_counts {
    unsigned limit;
    unsigned live;       /* taken now */
    unsigned live_max;   /* the most at any time */
    uint64_t started;    /* how often a slot was taken */
    uint64_t waits;      /* how often the receiving thread had to wait for one */
    uint64_t died;       /* processes that ended without an answer */
    uint64_t taken_back; /* requests that the daemon executed itself instead */
};

/* `count` slots, numbered from 0. NULL: out of memory. */
struct slots *slots_create(unsigned count);

/* NULL is harmless. */
void slots_free(struct slots *slots);

/* Takes a slot, after waiting for a free one: its number. */
unsigned slots_take(struct slots *slots);
void slots_release(struct slots *slots, unsigned slot);

/* Waits until no slot is taken. */
void slots_wait_all(struct slots *slots);

void slots_count_died(struct slots *slots);
void slots_count_taken_back(struct slots *slots);
struct slot_counts slots_counts(struct slots *slots);

/* Adds the counts to section "server" of the statistics. */
void slots_put_stats(struct slots *slots, struct json *json);

#endif
