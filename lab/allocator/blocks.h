/*
 * blocks: calloc and realloc for an allocator whose blocks are freelist.h's.
 */
#ifndef MQKV_LAB_ALLOCATOR_BLOCKS_H
#define MQKV_LAB_ALLOCATOR_BLOCKS_H

#include "mqkv/allocator.h"

/* As calloc(3). */
void *blocks_allocate_zeroed(const struct allocator *allocator, size_t count, size_t bytes);

/* As realloc(3); zero bytes give the smallest block. What a block loses is free at once. */
void *blocks_resize(const struct allocator *allocator, void *payload, size_t bytes);

#endif
