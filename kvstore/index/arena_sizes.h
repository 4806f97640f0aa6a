/*
 * arena_sizes: the sizes of the parts of an arena (arena.h), and how much of it there is.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_SIZES_H
#define MQKV_KVSTORE_INDEX_ARENA_SIZES_H

#include <stdint.h>

#include "kvstore/index/backing.h"

#define ARENA_CHUNK_BYTES  BACKING_LARGE_PAGE_BYTES
#define ARENA_BLOCK_BYTES  4112u
#define ARENA_CHUNK_BLOCKS (ARENA_CHUNK_BYTES / ARENA_BLOCK_BYTES)
#define ARENA_SMALL_CHUNKS 4u

struct arena_counts {
    uint64_t blocks;       /* in use, of any kind */
    uint64_t chunks;       /* held of the system */
    uint64_t own_chunks;   /* of these, in this process's own memory */
    uint64_t shared_bytes; /* of the object: what lies before may be mapped */
};

#endif
