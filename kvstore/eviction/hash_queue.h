/*
 * hash_queue: a first-in first-out queue of the hashes of keys, each with a number of the caller's
 * (its size), in blocks of memory that are allocated and freed as the queue grows and shrinks: 8
 * bytes for each hash, and no block is ever copied to a larger one.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_KVSTORE_EVICTION_HASH_QUEUE_H
#define MQKV_KVSTORE_EVICTION_HASH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queued_hash {
    uint32_t hash;
    uint32_t units;
};

struct hash_block;

/* {0}: empty. */
struct hash_queue {
    struct hash_block *oldest, *newest;
    struct hash_block *cleaned; /* the last block that hash_queue_clean cleaned; NULL: begin anew */
    uint64_t count;
    uint64_t units; /* their sum */
    uint64_t blocks;
};

void hash_queue_free(struct hash_queue *queue);

/* False: out of memory, nothing changed. */
bool hash_queue_push(struct hash_queue *queue, struct queued_hash item);

/* Takes the oldest hash. False: the queue is empty. */
bool hash_queue_pop(struct hash_queue *queue, struct queued_hash *item);

/* Takes the hashes for which is_out(context, hash) is true out of the next block, keeping the order
 * of the rest. True: that was the last block; the next call begins with the oldest. */
bool hash_queue_clean(struct hash_queue *queue, bool (*is_out)(void *context, uint32_t hash),
                      void *context);

uint64_t hash_queue_memory_bytes(const struct hash_queue *queue);

#endif
