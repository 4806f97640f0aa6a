/*
 * node_pool: the memory of one key tree (key_tree.h) in the arena of the store's indexes: pieces
 * that are smaller than a block of the arena are cut from such blocks, each of which has pieces of
 * one size, a power of 2; larger ones are taken as they are.
 *
 * Threads: none of its own; the lock of the tree's data file covers a pool. Readers without the
 * lock see bytes of pieces that were given back and taken again: see shared_order.h.
 */
#ifndef MQKV_KVSTORE_ORDER_NODE_POOL_H
#define MQKV_KVSTORE_ORDER_NODE_POOL_H

#include <stdint.h>

#include "kvstore/index/arena.h"

/* Pieces of 16 bytes to a block. */
#define NODE_POOL_SIZES 9u

struct node_pool {
    struct arena *arena;
    uint8_t *base;                       /* of the arena */
    uint32_t with_room[NODE_POOL_SIZES]; /* blocks: references; 0: none */
    uint64_t bytes;                      /* held of the arena */
};

void node_pool_init(struct node_pool *pool, struct arena *arena);

/* Gives back what is held, when all pieces have been. */
void node_pool_end(struct node_pool *pool);

/* Takes a piece of `bytes`, whose content is not defined. Returns its reference; 0: out of
 * memory. */
uint32_t node_pool_take(struct node_pool *pool, uint32_t bytes);

/* Gives a piece back that was taken with the same `bytes`; reference 0 is harmless. */
void node_pool_give(struct node_pool *pool, uint32_t reference, uint32_t bytes);

static inline void *node_pool_at(const struct node_pool *pool, uint32_t reference)
{
    return pool->base + (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT;
}

#endif
