/*
 * turn_memory: what the jobs of a turn share: the operations that they ask of the store, the
 * results, counters, and memory until the turn ends.
 *
 * It holds at most TURN_OPERATIONS operations and the chunk of one command more. How large values
 * are is known only afterwards: what the last turns have read limits the next, as a whole and for
 * each session. Threads: one.
 */
#ifndef MQKV_KRESP_SESSION_TURN_MEMORY_H
#define MQKV_KRESP_SESSION_TURN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/clientk.h"

/* Values of 1 MiB, the default limit of serverk, then take half of the default of --buffers. */
#define TURN_OPERATIONS 128u

struct turn_piece; /* of the memory that turn_memory_allocate gives */

/* Plain data of this module, redis_job and redis_turn. */
struct turn_memory {
    struct clientk_operation *operations;
    size_t operation_count, operation_capacity;
    struct clientk_result *results; /* their values' memory is used again and again */
    size_t result_capacity;
    size_t largest_bytes;   /* of the values of the last turns, less with each turn without such */
    size_t operation_limit; /* of a turn, and of each session in it */
    size_t session_limit;
    struct turn_piece *pieces; /* the first is the one that is given from */
    size_t piece_used;
    uint64_t hits, misses; /* of GET and its like */
};

void turn_memory_init(struct turn_memory *memory);
void turn_memory_free(struct turn_memory *memory);

/* Makes room for another operation; false: there is no memory. */
bool turn_memory_grow(struct turn_memory *memory);

/* Makes a result for each operation; false: there is no memory. */
bool turn_memory_make_results(struct turn_memory *memory);

/* Memory until the end of the turn; NULL: there is none. */
void *turn_memory_allocate(struct turn_memory *memory, size_t bytes);

/* The end of the turn: forgets its operations and what was allocated. Large values give their
 * memory back, and set the limits of the next turn. */
void turn_memory_end(struct turn_memory *memory);

#endif
