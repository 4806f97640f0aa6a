/*
 * statistics: the counters of the daemon. Each worker has its own block, on its own cache lines,
 * and is its only writer. A reader sums the blocks while they are written, and sees each number
 * before or after an update (relaxed atomics).
 */
#ifndef MQKV_SERVERK_EXECUTE_STATISTICS_H
#define MQKV_SERVERK_EXECUTE_STATISTICS_H

#include <stdint.h>

#include "common/memory/cursor.h"
#include "common/numbers/histogram.h"
#include "mqkv/status.h"

#define STATISTICS_OPCODES      20u /* enum wire_opcode as index; 0 unused */
#define STATISTICS_LAB_COUNTERS 3u

/* Messages without a reply, because their sender could not be proven. */
enum dropped_reason {
    DROPPED_MALFORMED,       /* no header, or a kind that clients do not send */
    DROPPED_UNKNOWN_SESSION, /* no such session, or the wrong cookie */
    DROPPED_BAD_HELLO,       /* the reply queue that it names is not the sender's */
    DROPPED_REASONS
};

/* The stages of a message in the server. */
enum latency_stage {
    STAGE_QUEUE_WAIT, /* estimated (worker.c): messages carry no time of sending */
    STAGE_LOCK_WAIT,  /* for locks of the store */
    STAGE_WORK,       /* from receipt to finished reply, without the lock wait */
    STAGE_COMMIT,     /* reply held back until its writes were on disk */
    STAGE_REPLY,      /* sending it */
    STAGES
};

struct worker_statistics {
    uint64_t messages; /* with operations in them */
    uint64_t operations[STATISTICS_OPCODES];
    uint64_t hits; /* GET and EXISTS that found their key; of a sum: reads in place, too */
    uint64_t misses;
    uint64_t direct_reads; /* of a sum only: those of hits and misses that were reads in place */
    uint64_t statuses[KV_STATUS_COUNT]; /* of operations; and of whole messages that failed */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t dropped[DROPPED_REASONS];
    uint64_t sleeps;                           /* the worker found nothing and slept */
    uint64_t lab[STATISTICS_LAB_COUNTERS];     /* what the lab counts */
    struct histogram stages[STAGES];           /* STAGE_WORK only in a sum: statistics_finish_sum */
    struct histogram work[STATISTICS_OPCODES]; /* STAGE_WORK by statistics_kind */
} __attribute__((aligned(128)));

_Static_assert(sizeof(struct worker_statistics) % 128 == 0, "blocks share no cache line");

/* What a request counts as in `work`: the opcode of its only operation; 0: it has several. */
static inline unsigned statistics_kind(unsigned operations, const struct read_cursor *cursor)
{
    unsigned opcode = operations == 1 && read_cursor_left(cursor) > 0 ? *cursor->at : 0;
    return opcode < STATISTICS_OPCODES ? opcode : 0;
}

/* Adds to a counter of the caller's own block. */
static inline void statistics_add(uint64_t *counter, uint64_t count)
{
    uint64_t value = __atomic_load_n(counter, __ATOMIC_RELAXED);
    __atomic_store_n(counter, value + count, __ATOMIC_RELAXED);
}

/* Blocks for `count` writers, zeroed; NULL: out of memory. Free with free(). */
struct worker_statistics *statistics_create(unsigned count);

/* The same in memory that processes forked later share with this one; NULL: out of memory. Free
 * with statistics_free_shared, which takes NULL. */
struct worker_statistics *statistics_create_shared(unsigned count);
void statistics_free_shared(struct worker_statistics *blocks, unsigned count);

/* Adds `count` blocks into *sum, which starts from {0}. */
void statistics_sum(struct worker_statistics *sum, const struct worker_statistics *blocks,
                    unsigned count);

/* Once all blocks are in the sum: fills in what follows from the rest. */
void statistics_finish_sum(struct worker_statistics *sum);

/* "get", ...; opcode: 1 .. STATISTICS_OPCODES - 1. 0: "batch". */
const char *statistics_operation_name(unsigned opcode);

/* "malformed" ..., "queue_wait" ... */
const char *dropped_reason_name(enum dropped_reason reason);
const char *latency_stage_name(enum latency_stage stage);

#endif
