/*
 * freelist: blocks of memory, and a doubly linked list of the free ones in order of address, no two
 * of which touch (Knuth, TAOCP 1, 2.5, "dynamic storage allocation"; best fit, splitting and
 * coalescing as in the study that allocator.h names).
 *
 * Threads: none of its own. Only the list's owner may call; free_list_bytes and free_list_blocks
 * may be called by anybody.
 */
#ifndef MQKV_LAB_ALLOCATOR_FREELIST_H
#define MQKV_LAB_ALLOCATOR_FREELIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_ALIGNMENT ((size_t)16)

/* The first two fields stand before each block's bytes; the links lie in them while it is free. */
struct freelist_block {
    size_t bytes;   /* of all, header included; a multiple of BLOCK_ALIGNMENT */
    uintptr_t mark; /* the block's address with a constant: of live ones, or of free ones */
    struct freelist_block *next;
    struct freelist_block *previous;
};

#define BLOCK_HEADER_BYTES   offsetof(struct freelist_block, next)
#define BLOCK_SMALLEST_BYTES sizeof(struct freelist_block)

/* {0} is an empty list. */
struct free_list {
    struct freelist_block *first;
    atomic_uint_fast64_t bytes; /* of all its blocks, headers included; written by the owner only */
    atomic_uint_fast64_t blocks;
};

/* Returns the size of a block for a payload of payload_bytes; 0: there is none (errno is ENOMEM
 * then). */
size_t block_bytes_for(size_t payload_bytes);

/* Makes a live block of `memory`, which is in no list. Returns the caller's part of the block. */
void *block_start(void *memory, size_t block_bytes);

/* Returns the live block whose part for the caller is `payload`. Ends the process with a message if
 * there is none. */
struct freelist_block *block_of(void *payload);

/* Cuts what a live block has beyond block_bytes into a live block of its own; NULL: too little. */
struct freelist_block *block_cut(struct freelist_block *block, size_t block_bytes);

/* Takes out the smallest block that has block_bytes, or that much off its end. Returns the caller's
 * part. NULL: there is none. */
void *free_list_take(struct free_list *list, size_t block_bytes);

/* Puts a live block in, joined with neighbours that are there. */
void free_list_put(struct free_list *list, struct freelist_block *block);

/* Moves all blocks of `from` to `list`. One walk over both. */
void free_list_merge(struct free_list *list, struct free_list *from);

uint64_t free_list_bytes(const struct free_list *list);
uint64_t free_list_blocks(const struct free_list *list);

/* Returns whether order, links, marks, sizes and counts are right and no two blocks touch. */
bool free_list_is_sound(const struct free_list *list);

#endif
