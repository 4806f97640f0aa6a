/*
 * schedule: --sched cost: messages that were received and wait for a worker, in the order of their
 * due times. What is due first is served first; of two that are due together, the one received
 * first.
 *
 *     due = received + min(expected work x SCHEDULE_STRETCH / (1 + priority), SCHEDULE_AGING_NS)
 *
 * Among messages that came together that is the order of work divided by weight, which makes the
 * sum of response times, each times its weight, as small as it can be (Smith's rule: W. E. Smith,
 * "Various optimizers for single-stage production", Naval Research Logistics Quarterly 3, 1956);
 * the weight of a priority is 1 + priority. And since a due time never changes, waiting makes a
 * message older than those that come: what was received SCHEDULE_AGING_NS or more after it cannot
 * pass it. So nothing starves: a message waits for what was there when it came, and what comes
 * within that time.
 *
 * Payers (lanes.h) have a heap each, so that the messages of those that rest (shares.h) can stay
 * where they are; and where there are several payers, each has a quarter of the places at most, so
 * that there is room for the others.
 *
 * These are binary heaps in memory that is taken once, for `capacity` messages and one more a
 * worker. Threads: all calls may be made by any thread; a lock is held for some comparisons and one
 * copy of the message.
 */
#ifndef MQKV_SERVERK_RECEIVE_SCHEDULE_H
#define MQKV_SERVERK_RECEIVE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/histogram.h"
#include "mqkv/slice.h"

/* A microsecond of expected work counts as a millisecond of waiting. */
#define SCHEDULE_STRETCH 1000u

/* No message passes one that was received so long before it. */
#define SCHEDULE_AGING_NS (100u * 1000u * 1000u)

struct schedule;
struct session;

/* How long after it was received a message of that priority (above 31 counts as 31) is due. */
uint64_t schedule_delay_ns(unsigned priority, uint64_t work_ns);

#define SCHEDULE_MAX_PAYERS 32u

/* For messages of at most message_bytes, taken by so many workers, of payers 0 .. payers-1. NULL:
 * out of memory. */
struct schedule *schedule_create(unsigned capacity, unsigned payers, size_t message_bytes,
                                 unsigned workers);
void schedule_free(struct schedule *schedule);

/* True if `capacity` messages wait: no more should be received. A worker that asked, received one
 * and adds it is sure of its place. */
bool schedule_full(struct schedule *schedule);

/* The payers (as bits) that have all the places that one may have: no more of theirs should be
 * received. The same holds for who asked. */
uint32_t schedule_full_payers(struct schedule *schedule);

/* Where a message comes from. */
struct schedule_source {
    struct session *session; /* held; NULL: none */
    unsigned queue;
    unsigned payer;
};

/* Adds a copy of the message, which was received now. */
void schedule_add(struct schedule *schedule, struct kv_slice message, struct schedule_source source,
                  unsigned priority, uint64_t work_ns, uint64_t now_ns);

/* Moves the first message of those payers (as bits) to `buffer`: its size, its source (as
 * schedule_add was told) and priority, and how long it waited; 0: none waits. */
size_t schedule_take(struct schedule *schedule, uint32_t payers, uint8_t *buffer,
                     struct schedule_source *source, unsigned *priority, uint64_t now_ns,
                     uint64_t *waited_ns);

unsigned schedule_waiting(const struct schedule *schedule);

/* The payers (as bits) that have messages waiting. */
uint32_t schedule_payers(const struct schedule *schedule);

/* Waits are told by classes of priorities: 0-7, 8-15, 16-23, 24-31. */
#define SCHEDULE_CLASSES 4u

struct schedule_statistics {
    unsigned capacity;
    unsigned waiting, waiting_max;
    double waiting_mean; /* that a message found when it came */
    uint64_t received;
    uint64_t full; /* times that schedule_full, or schedule_full_payers of one, said so */
    struct histogram waits[SCHEDULE_CLASSES];
};
void schedule_statistics(struct schedule *schedule, struct schedule_statistics *statistics);

#endif
