/*
 * schedule: --sched cost: received messages that wait for a worker, in the order of their due
 * times. Of two messages with the same due time, the one received first comes first.
 *
 *     due = received + min(expected work x SCHEDULE_STRETCH / (1 + priority), SCHEDULE_AGING_NS)
 *
 * Messages that arrive together are thus ordered by work divided by weight, where the weight of a
 * priority is 1 + priority. This minimizes the weighted sum of response times (Smith's rule: W. E.
 * Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly 3,
 * 1956). A due time never changes, so a message cannot be overtaken by one that was received
 * SCHEDULE_AGING_NS or more after it. Hence no message starves: it waits only for those that were
 * there before it and those that arrive within that time.
 *
 * Each tenant (lanes.h) has its own heap, so that the messages of a tenant that rests (shares.h)
 * can stay there. Where there are several tenants, each has at most a quarter of the places.
 *
 * The heaps are binary heaps in memory that is allocated once, for `capacity` messages and one more
 * per worker. Threads: all calls may be made by any thread; a lock is held for some comparisons and
 * one copy of the message.
 */
#ifndef MQKV_LAB_SCHEDULE_SCHEDULE_H
#define MQKV_LAB_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/numbers/histogram.h"
#include "mqkv/slice.h"

/* A microsecond of expected work counts as a millisecond of waiting. */
#define SCHEDULE_STRETCH 1000u

/* No message overtakes one that was received this much earlier. */
#define SCHEDULE_AGING_NS (100u * 1000u * 1000u)

struct schedule;
struct session;

/* Where a message comes from. */
struct message_source {
    struct session *session; /* held; NULL: none */
    unsigned queue;
    unsigned tenant;
};

/* Returns how long after it was received a message of that priority (above 31 counts as 31) is
 * due. */
uint64_t schedule_delay_ns(unsigned priority, uint64_t work_ns);

#define SCHEDULE_MAX_TENANTS 32u

/* Makes a schedule for `capacity` messages of at most message_bytes, which `workers` workers take,
 * of tenants 0 .. tenants-1. NULL: out of memory. */
struct schedule *schedule_create(unsigned capacity, unsigned tenants, size_t message_bytes,
                                 unsigned workers);
void schedule_free(struct schedule *schedule);

/* Returns true if `capacity` messages wait: no more should be received. If false, the worker that
 * asked may receive one message and is sure of a place for it. */
bool schedule_full(const struct schedule *schedule);

/* The tenants (as bits) that use all the places that one tenant may have: no more of their messages
 * should be received. The same promise holds for the worker that asked. */
uint32_t schedule_full_tenants(const struct schedule *schedule);

/* Adds a copy of the message, which was received now. */
void schedule_add(struct schedule *schedule, struct kv_slice message, struct message_source source,
                  unsigned priority, uint64_t work_ns, uint64_t now_ns);

/* Moves the first message of those tenants (as bits) to `buffer`: its size, its source (as
 * schedule_add was told) and priority, and how long it waited; 0: none waits. */
size_t schedule_take(struct schedule *schedule, uint32_t tenants, uint8_t *buffer,
                     struct message_source *source, unsigned *priority, uint64_t now_ns,
                     uint64_t *waited_ns);

unsigned schedule_waiting(const struct schedule *schedule);

/* The tenants (as bits) that have messages waiting. */
uint32_t schedule_tenants(const struct schedule *schedule);

/* Waits are counted per class of priorities: 0-7, 8-15, 16-23, 24-31. */
#define SCHEDULE_CLASSES 4u

struct schedule_statistics {
    unsigned capacity;
    unsigned waiting, waiting_max;
    double waiting_mean; /* that a message found when it came */
    uint64_t received;
    uint64_t full; /* times that the last free place was taken, of all or of those of a tenant */
    struct histogram waits[SCHEDULE_CLASSES];
};
void schedule_statistics(struct schedule *schedule, struct schedule_statistics *statistics);

#endif
