#include "kvstore/order/node_pool.h"

#include <string.h>

#include "common/assert/assert.h"

#define SMALLEST_PIECE_BYTES 16u

/* At the beginning of each block of pieces. A piece that was given back has the number of the next
 * one in its first bytes. */
struct node_block {
    uint32_t next, previous; /* with room for pieces of this size: references; 0: none */
    uint16_t used;           /* pieces in use */
    uint16_t touched;        /* pieces from here on were never taken */
    uint16_t given_back;     /* number plus 1 of the first; 0: none */
    uint16_t size;           /* index of pool->with_room */
};

#define PIECES_BYTES (ARENA_BLOCK_BYTES - sizeof(struct node_block))

_Static_assert(sizeof(struct node_block) % SHARED_STORE_REFERENCE_UNIT == 0, "alignment");
_Static_assert(PIECES_BYTES == SMALLEST_PIECE_BYTES << (NODE_POOL_SIZES - 1), "sizes");

static uint32_t piece_size(uint32_t bytes)
{
    uint32_t size = 0;
    while ((SMALLEST_PIECE_BYTES << size) < bytes)
        size++;
    return size;
}

static uint32_t node_piece_bytes(uint32_t size)
{
    return SMALLEST_PIECE_BYTES << size;
}

static uint32_t pieces_of(uint32_t size)
{
    return (uint32_t)PIECES_BYTES / node_piece_bytes(size);
}

static uint8_t *piece_at(struct node_block *block, uint32_t piece)
{
    return (uint8_t *)(block + 1) + (size_t)piece * node_piece_bytes(block->size);
}

static uint32_t reference_of_block(const struct node_pool *pool, const struct node_block *block)
{
    uint64_t offset = (uint64_t)((const uint8_t *)block - pool->base);
    return (uint32_t)(offset / SHARED_STORE_REFERENCE_UNIT);
}

static void enlist_block(struct node_pool *pool, struct node_block *block)
{
    uint32_t first = pool->with_room[block->size];
    block->next = first;
    block->previous = 0;
    pool->with_room[block->size] = reference_of_block(pool, block);
    if (first != 0)
        ((struct node_block *)node_pool_at(pool, first))->previous = pool->with_room[block->size];
}

static void delist_block(struct node_pool *pool, struct node_block *block)
{
    if (block->next != 0)
        ((struct node_block *)node_pool_at(pool, block->next))->previous = block->previous;
    if (block->previous != 0)
        ((struct node_block *)node_pool_at(pool, block->previous))->next = block->next;
    else
        pool->with_room[block->size] = block->next;
}

void node_pool_init(struct node_pool *pool, struct arena *arena)
{
    *pool = (struct node_pool){.arena = arena, .base = (uint8_t *)arena_base(arena)};
}

static void give_block(struct node_pool *pool, struct node_block *block)
{
    KV_ASSERT(block->used == 0);
    delist_block(pool, block);
    pool->bytes -= ARENA_BLOCK_BYTES;
    arena_give(pool->arena, reference_of_block(pool, block), ARENA_BLOCK_BYTES);
}

void node_pool_end(struct node_pool *pool)
{
    for (uint32_t size = 0; size < NODE_POOL_SIZES; size++)
        while (pool->with_room[size] != 0)
            give_block(pool, node_pool_at(pool, pool->with_room[size]));
    KV_ASSERT(pool->bytes == 0);
}

static uint32_t whole_blocks(uint32_t bytes)
{
    return (bytes + ARENA_BLOCK_BYTES - 1) / ARENA_BLOCK_BYTES * ARENA_BLOCK_BYTES;
}

static struct node_block *add_node_block(struct node_pool *pool, uint32_t size)
{
    uint32_t reference = arena_take(pool->arena, ARENA_BLOCK_BYTES);
    if (reference == 0)
        return NULL;
    struct node_block *block = node_pool_at(pool, reference);
    *block = (struct node_block){.size = (uint16_t)size};
    pool->bytes += ARENA_BLOCK_BYTES;
    enlist_block(pool, block);
    return block;
}

uint32_t node_pool_take(struct node_pool *pool, uint32_t bytes)
{
    KV_ASSERT(bytes > 0);
    if (bytes > PIECES_BYTES) {
        uint32_t large = arena_take(pool->arena, bytes);
        pool->bytes += large != 0 ? whole_blocks(bytes) : 0;
        return large;
    }
    uint32_t size = piece_size(bytes), first = pool->with_room[size];
    struct node_block *block = first != 0 ? node_pool_at(pool, first) : add_node_block(pool, size);
    if (!block)
        return 0;
    uint32_t piece = block->touched;
    if (block->given_back != 0) {
        piece = block->given_back - 1u;
        memcpy(&block->given_back, piece_at(block, piece), sizeof block->given_back);
    } else {
        block->touched++;
    }
    block->used++;
    KV_ASSERT(block->used <= pieces_of(size) && piece < pieces_of(size));
    if (block->used == pieces_of(size))
        delist_block(pool, block);
    uint64_t offset = (uint64_t)(piece_at(block, piece) - pool->base);
    return (uint32_t)(offset / SHARED_STORE_REFERENCE_UNIT);
}

void node_pool_give(struct node_pool *pool, uint32_t reference, uint32_t bytes)
{
    if (reference == 0)
        return;
    if (bytes > PIECES_BYTES) {
        pool->bytes -= whole_blocks(bytes);
        arena_give(pool->arena, reference, bytes);
        return;
    }
    uint64_t within_block =
        (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT % ARENA_CHUNK_BYTES % ARENA_BLOCK_BYTES;
    uint8_t *at = node_pool_at(pool, reference);
    struct node_block *block = (struct node_block *)(void *)(at - within_block);
    uint32_t size = piece_size(bytes);
    uint32_t piece = (uint32_t)((within_block - sizeof *block) / node_piece_bytes(size));
    KV_ASSERT(block->size == size && block->used > 0 && at == piece_at(block, piece));
    memcpy(at, &block->given_back, sizeof block->given_back);
    block->given_back = (uint16_t)(piece + 1);
    if (block->used == pieces_of(size))
        enlist_block(pool, block);
    block->used--;
    /* The last one with room stays, so that it does not come and go with one piece. */
    if (block->used == 0 && (block->next != 0 || block->previous != 0))
        give_block(pool, block);
}
