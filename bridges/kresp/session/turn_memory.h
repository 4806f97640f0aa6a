/*
 * turn_memory: what the jobs of a turn share: the operations that they ask of the store, the
 * results, counters, and memory until the turn ends.
 *
 * It holds at most TURN_OPERATIONS operations, of about TURN_BYTES, and the chunk of one command
 * more. How large values are is known only afterwards: what a session has read in its last turns
 * says what its next operations are expected to be. Threads: one.
 */
#ifndef MQKV_KRESP_SESSION_TURN_MEMORY_H
#define MQKV_KRESP_SESSION_TURN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/clientk.h"

#define TURN_OPERATIONS 128u

/* What a turn, and a session in it, may read and write, about: others wait so long, and more at
 * once is hardly faster. */
#define TURN_BYTES         ((size_t)256 * 1024)
#define TURN_SESSION_BYTES ((size_t)64 * 1024)

struct turn_piece; /* of the memory that turn_memory_allocate gives */

/* Plain data of this module, redis_job and redis_turn. */
struct turn_memory {
    struct clientk_operation *operations;
    size_t operation_count, operation_capacity;
    struct clientk_result *results; /* their values' memory is used again and again */
    size_t result_capacity;
    size_t expected_bytes;     /* of all that was taken */
    size_t session_limit;      /* operations of the session that is being taken */
    struct turn_piece *pieces; /* the first is the one that is given from */
    size_t piece_used;
    uint64_t hits, misses; /* of GET and its like */
};

/* Start from {0}. */
void turn_memory_free(struct turn_memory *memory);

/* Makes room for another operation; false: there is no memory. */
bool turn_memory_grow(struct turn_memory *memory);

/* Makes a result for each operation; false: there is no memory. */
bool turn_memory_make_results(struct turn_memory *memory);

/* Sets the limit of a session whose values are expected to have so many bytes. */
void turn_memory_limit_session(struct turn_memory *memory, size_t value_bytes);

/* Memory until the end of the turn; NULL: there is none. */
void *turn_memory_allocate(struct turn_memory *memory, size_t bytes);

/* The end of the turn: forgets its operations and what was allocated. Large values give their
 * memory back. */
void turn_memory_end(struct turn_memory *memory);

#endif
