#include "kvstore/eviction/hash_queue.h"

#include <stdlib.h>

#define BLOCK_ITEMS 510u

struct hash_block {
    struct hash_block *newer;
    uint32_t begin, end; /* of the items in use */
    struct queued_hash items[BLOCK_ITEMS];
};

_Static_assert(sizeof(struct hash_block) == 4096, "a page");

void hash_queue_free(struct hash_queue *queue)
{
    for (struct hash_block *block = queue->oldest, *newer; block; block = newer) {
        newer = block->newer;
        free(block);
    }
    *queue = (struct hash_queue){0};
}

static bool hash_queue_add_block(struct hash_queue *queue)
{
    struct hash_block *block = malloc(sizeof *block);
    if (!block)
        return false;
    block->newer = NULL;
    block->begin = block->end = 0;
    *(queue->newest ? &queue->newest->newer : &queue->oldest) = block;
    queue->newest = block;
    queue->blocks++;
    return true;
}

bool hash_queue_push(struct hash_queue *queue, struct queued_hash item)
{
    if ((!queue->newest || queue->newest->end == BLOCK_ITEMS) && !hash_queue_add_block(queue))
        return false;
    queue->newest->items[queue->newest->end++] = item;
    queue->count++;
    queue->units += item.units;
    return true;
}

bool hash_queue_pop(struct hash_queue *queue, struct queued_hash *item)
{
    while (queue->oldest && queue->oldest->begin == queue->oldest->end) {
        struct hash_block *block = queue->oldest;
        queue->oldest = block->newer;
        if (!queue->oldest)
            queue->newest = NULL;
        if (queue->cleaned == block)
            queue->cleaned = NULL;
        queue->blocks--;
        free(block);
    }
    if (!queue->oldest)
        return false;
    *item = queue->oldest->items[queue->oldest->begin++];
    queue->count--;
    queue->units -= item->units;
    return true;
}

/* Moves the items of the block behind into this one, if they all have room. */
static void join_blocks(struct hash_queue *queue, struct hash_block *block)
{
    struct hash_block *newer = block->newer;
    if (!newer || newer->end - newer->begin > BLOCK_ITEMS - block->end)
        return;
    for (uint32_t i = newer->begin; i < newer->end; i++)
        block->items[block->end++] = newer->items[i];
    block->newer = newer->newer;
    if (queue->newest == newer)
        queue->newest = block;
    queue->blocks--;
    free(newer);
}

bool hash_queue_clean(struct hash_queue *queue, bool (*is_out)(void *context, uint32_t hash),
                      void *context)
{
    struct hash_block *block = queue->cleaned ? queue->cleaned->newer : queue->oldest;
    if (!block) {
        queue->cleaned = NULL;
        return true;
    }
    uint32_t kept = 0;
    for (uint32_t i = block->begin; i < block->end; i++) {
        if (is_out(context, block->items[i].hash)) {
            queue->count--;
            queue->units -= block->items[i].units;
        } else {
            block->items[kept++] = block->items[i];
        }
    }
    block->begin = 0;
    block->end = kept;
    if (queue->cleaned) {
        join_blocks(queue, queue->cleaned);
        if (queue->cleaned->newer != block) /* it was joined */
            block = queue->cleaned;
    }
    queue->cleaned = block->newer ? block : NULL;
    return !block->newer;
}

uint64_t hash_queue_memory_bytes(const struct hash_queue *queue)
{
    return queue->blocks * sizeof(struct hash_block);
}
