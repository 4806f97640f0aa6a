#include "lab/allocator/freelist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LIVE_MARK ((uintptr_t)0x6c69766562316b31)
#define FREE_MARK ((uintptr_t)0x66726565623230f5)

static uintptr_t mark_of(const struct freelist_block *block, uintptr_t kind)
{
    return (uintptr_t)block ^ kind;
}

static char *end_of(const struct freelist_block *block)
{
    return (char *)(uintptr_t)block + block->bytes;
}

/* Only the owner writes: no read-modify-write instruction is needed. */
static void raise_count(atomic_uint_fast64_t *count, uint64_t more)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

size_t block_bytes_for(size_t payload_bytes)
{
    if (payload_bytes > PTRDIFF_MAX - BLOCK_HEADER_BYTES - BLOCK_ALIGNMENT) {
        errno = ENOMEM;
        return 0;
    }
    size_t bytes =
        (payload_bytes + BLOCK_HEADER_BYTES + BLOCK_ALIGNMENT - 1) & ~(BLOCK_ALIGNMENT - 1);
    return bytes < BLOCK_SMALLEST_BYTES ? BLOCK_SMALLEST_BYTES : bytes;
}

void *block_start(void *memory, size_t block_bytes)
{
    struct freelist_block *block = memory;
    block->bytes = block_bytes;
    block->mark = mark_of(block, LIVE_MARK);
    return (char *)memory + BLOCK_HEADER_BYTES;
}

static _Noreturn void refuse_block(const void *payload, const char *why)
{
    fprintf(stderr, "allocator: %p is not a block to free: %s\n", payload, why);
    abort();
}

struct freelist_block *block_of(void *payload)
{
    if ((uintptr_t)payload % BLOCK_ALIGNMENT != 0)
        refuse_block(payload, "its alignment is not that of a block");
    struct freelist_block *block = (struct freelist_block *)((char *)payload - BLOCK_HEADER_BYTES);
    if (block->mark == mark_of(block, FREE_MARK))
        refuse_block(payload, "it is free already");
    if (block->mark != mark_of(block, LIVE_MARK))
        refuse_block(payload, "it was not allocated here, or the header before it was overwritten");
    return block;
}

struct freelist_block *block_cut(struct freelist_block *block, size_t block_bytes)
{
    size_t rest_bytes = block->bytes - block_bytes;
    if (rest_bytes < BLOCK_SMALLEST_BYTES)
        return NULL;
    block->bytes = block_bytes;
    struct freelist_block *rest = (struct freelist_block *)end_of(block);
    block_start(rest, rest_bytes);
    return rest;
}

static struct freelist_block *best_fit(const struct free_list *list, size_t block_bytes)
{
    struct freelist_block *best = NULL;
    for (struct freelist_block *block = list->first; block; block = block->next) {
        if (block->bytes == block_bytes)
            return block;
        if (block->bytes > block_bytes && (!best || block->bytes < best->bytes))
            best = block;
    }
    return best;
}

static void unlink_block(struct free_list *list, struct freelist_block *block)
{
    if (block->previous)
        block->previous->next = block->next;
    else
        list->first = block->next;
    if (block->next)
        block->next->previous = block->previous;
    raise_count(&list->blocks, (uint64_t)-1);
}

/* previous NULL: at the beginning. */
static void link_block(struct free_list *list, struct freelist_block *previous,
                       struct freelist_block *block)
{
    block->previous = previous;
    block->next = previous ? previous->next : list->first;
    if (block->next)
        block->next->previous = block;
    if (previous)
        previous->next = block;
    else
        list->first = block;
    raise_count(&list->blocks, 1);
}

void *free_list_take(struct free_list *list, size_t block_bytes)
{
    struct freelist_block *block = best_fit(list, block_bytes);
    if (!block)
        return NULL;
    struct freelist_block *taken = block;
    if (block->bytes - block_bytes < BLOCK_SMALLEST_BYTES) {
        unlink_block(list, block);
    } else { /* the front stays where it is in the list */
        block->bytes -= block_bytes;
        taken = (struct freelist_block *)end_of(block);
        taken->bytes = block_bytes;
    }
    raise_count(&list->bytes, -(uint64_t)taken->bytes);
    return block_start(taken, taken->bytes);
}

/* Lets the block swallow the next one where they touch. */
static void join_next(struct free_list *list, struct freelist_block *block)
{
    struct freelist_block *next = block->next;
    if (!next || end_of(block) != (char *)next)
        return;
    unlink_block(list, next);
    next->mark = 0; /* its header is part of a free block now */
    block->bytes += next->bytes;
}

/* Puts the block in, at or after `from` (NULL: anywhere), which lies below it. Gives the block that
 * it is part of now. */
static struct freelist_block *put_after(struct free_list *list, struct freelist_block *from,
                                        struct freelist_block *block)
{
    struct freelist_block *previous = from;
    for (struct freelist_block *next = from ? from->next : list->first; next && next < block;
         next = next->next)
        previous = next;
    raise_count(&list->bytes, block->bytes);
    block->mark = mark_of(block, FREE_MARK);
    link_block(list, previous, block);
    join_next(list, block);
    if (!previous || end_of(previous) != (char *)block)
        return block;
    join_next(list, previous);
    return previous;
}

void free_list_put(struct free_list *list, struct freelist_block *block)
{
    put_after(list, NULL, block);
}

void free_list_merge(struct free_list *list, struct free_list *from)
{
    struct freelist_block *last = NULL;
    for (struct freelist_block *block = from->first, *next; block; block = next) {
        next = block->next;
        last = put_after(list, last, block);
    }
    from->first = NULL;
    atomic_store_explicit(&from->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&from->blocks, 0, memory_order_relaxed);
}

uint64_t free_list_bytes(const struct free_list *list)
{
    return atomic_load_explicit(&list->bytes, memory_order_relaxed);
}

uint64_t free_list_blocks(const struct free_list *list)
{
    return atomic_load_explicit(&list->blocks, memory_order_relaxed);
}

bool free_list_is_sound(const struct free_list *list)
{
    uint64_t bytes = 0, blocks = 0;
    const struct freelist_block *previous = NULL;
    for (const struct freelist_block *block = list->first; block;
         previous = block, block = block->next) {
        if (block->previous != previous || block->mark != mark_of(block, FREE_MARK) ||
            block->bytes < BLOCK_SMALLEST_BYTES || block->bytes % BLOCK_ALIGNMENT != 0 ||
            (uintptr_t)block % BLOCK_ALIGNMENT != 0)
            return false;
        if (previous && end_of(previous) >= (const char *)block)
            return false;
        bytes += block->bytes;
        blocks++;
    }
    return bytes == free_list_bytes(list) && blocks == free_list_blocks(list);
}
