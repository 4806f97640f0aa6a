#include "lab/allocator/blocks.h"

#include <errno.h>
#include <string.h>

#include "lab/allocator/freelist.h"

void *blocks_allocate_zeroed(const struct allocator *allocator, size_t count, size_t bytes)
{
    size_t all_bytes;
    if (__builtin_mul_overflow(count, bytes, &all_bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *payload = allocator->allocate(all_bytes);
    return payload ? memset(payload, 0, all_bytes) : NULL;
}

void *blocks_resize(const struct allocator *allocator, void *payload, size_t bytes)
{
    size_t block_bytes = block_bytes_for(bytes);
    if (!payload || block_bytes == 0)
        return block_bytes == 0 ? NULL : allocator->allocate(bytes);
    struct freelist_block *block = block_of(payload);
    if (block_bytes <= block->bytes) {
        struct freelist_block *rest = block_cut(block, block_bytes);
        if (rest)
            allocator->release((char *)rest + BLOCK_HEADER_BYTES);
        return payload;
    }
    void *larger = allocator->allocate(bytes);
    if (!larger)
        return NULL;
    memcpy(larger, payload, block->bytes - BLOCK_HEADER_BYTES);
    allocator->release(payload);
    return larger;
}
