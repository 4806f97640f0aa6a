/*
 * batch_memory: what the jobs of a batch share: the operations that they ask of the store, the
 * results, counters, and memory that lasts until the batch ends.
 *
 * It takes operations until it has BATCH_OPERATIONS or expects BATCH_BYTES of values, and then at
 * most the chunk of one more command. How large values are is known only afterwards: the values
 * that a session has read in its last batches are the ones that it is expected to read next.
 * Threads: one.
 */
#ifndef MQKV_KRESP_SESSION_BATCH_MEMORY_H
#define MQKV_KRESP_SESSION_BATCH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/clientk.h"

#define BATCH_OPERATIONS 128u

/* About how much a batch, and a session in it, may read and write: others wait while it does, and
 * more at once is hardly faster. */
#define BATCH_BYTES         ((size_t)256 * 1024)
#define BATCH_SESSION_BYTES ((size_t)64 * 1024)

/* What scripts and transactions have of their thread: what runs scripts, if one has run (`free`
 * frees it), and how they let others have their turns. */
struct thread_scripts {
    void *vm;
    void (*free)(void *vm);
    /* For a command that takes long, at least every few milliseconds: if its user's turn is over,
     * others have theirs before it returns. NULL: nobody waits. False: kresp stops, and so should
     * the command. Others may have changed all but what the round's own sessions have. */
    bool (*give_way)(void *context);
    void *context;      /* of give_way */
    uint64_t paused_ms; /* the time that others had */
};

struct batch_piece; /* a piece of the memory that batch_memory_allocate gives */

/* Only this module, redis_job and redis_batch use its fields. */
struct batch_memory {
    struct clientk_operation *operations;
    size_t operation_count, operation_capacity;
    struct clientk_result *results; /* their values' memory is used again and again */
    size_t result_capacity;
    size_t expected_bytes;      /* expected bytes of all operations */
    size_t session_limit;       /* operations that the session that is being taken may have */
    struct batch_piece *pieces; /* batch_memory_allocate gives from the first */
    size_t piece_used;
    uint64_t hits, misses;          /* hits and misses of GET and similar commands */
    struct thread_scripts *scripts; /* the thread's; NULL: it cannot run any */
};

/* Start from {0}. */
void batch_memory_free(struct batch_memory *memory);

/* Makes room for another operation; false: there is no memory. */
bool batch_memory_grow(struct batch_memory *memory);

/* Makes a result for each operation; false: there is no memory. */
bool batch_memory_make_results(struct batch_memory *memory);

/* Sets the limit of a session whose values are expected to have value_bytes each. */
void batch_memory_limit_session(struct batch_memory *memory, size_t value_bytes);

/* Returns memory that lasts until the end of the batch; NULL: there is none. */
void *batch_memory_allocate(struct batch_memory *memory, size_t bytes);

/* Ends the batch: forgets its operations and what was allocated. Large values give their memory
 * back. */
void batch_memory_end(struct batch_memory *memory);

#endif
