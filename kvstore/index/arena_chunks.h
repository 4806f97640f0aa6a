/*
 * arena_chunks: the parts of an arena (arena.h), and its chunks and blocks. For the arena's modules
 * only.
 *
 * The caller of each function holds the arena's mutex, or no other thread knows the arena yet.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_CHUNKS_H
#define MQKV_KVSTORE_INDEX_ARENA_CHUNKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/assert/assert.h"
#include "kvstore/index/arena_sizes.h"
#include "kvstore/index/backing.h"
#include "kvstore/shared/shared_store.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define ALLOW(at, bytes)  ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define FORBID(at, bytes) ((void)(at), (void)(bytes))
#define ALLOW(at, bytes)  ((void)(at), (void)(bytes))
#endif

#define CHUNK_WORD_BITS 64u
#define CHUNK_WORDS     ((ARENA_CHUNK_BLOCKS + CHUNK_WORD_BITS - 1) / CHUNK_WORD_BITS)

/* A small chunk of the object is allocated in steps of this size. */
#define ARENA_STEP_BYTES (UINT64_C(64) << 10)

enum chunk_kind {
    CHUNK_FREE,      /* no memory is behind it */
    CHUNK_OF_BLOCKS, /* with at least one in use */
    CHUNK_WHOLE      /* one of a run that was taken as a whole */
};

struct chunk {
    uint64_t taken[CHUNK_WORDS]; /* a bit for each block */
    uint32_t next, previous;     /* in the list of chunks with room: numbers plus 1; 0: none */
    uint16_t used;               /* blocks in use */
    uint16_t touched;            /* blocks from here on are zeros */
    uint16_t ready; /* blocks from here on must not be touched: they may have no memory */
    uint8_t kind;
    bool is_listed;
    bool is_own;
    bool is_large; /* a large page from its first byte on, or asked to become one */
};

/* A block that is given out in units. */
struct slab {
    uint32_t block; /* reference; 0: none */
    uint32_t unit_bytes;
    uint64_t taken; /* a bit for each unit */
};

struct arena {
    struct backing backing; /* constant but for file_bytes */
    pthread_mutex_t mutex;  /* for all below */
    struct chunk *chunks;   /* chunk_room of them; their memory comes as they are used */
    uint32_t chunk_room;
    uint32_t with_room; /* number plus 1 of the first */
    struct slab *slabs;
    size_t slab_count;
    bool is_claimed; /* arena_adopt to arena_end_claims: no chunk is given back */
    struct arena_counts counts;
};

static inline uint64_t chunk_offset(const struct arena *arena, const struct chunk *chunk)
{
    return (uint64_t)(chunk - arena->chunks) * ARENA_CHUNK_BYTES;
}

static inline uint32_t reference_of(uint64_t offset)
{
    return (uint32_t)(offset / SHARED_STORE_REFERENCE_UNIT);
}

static inline uint64_t offset_of(uint32_t reference)
{
    return (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT;
}

static inline bool chunk_is_taken(const struct chunk *chunk, uint32_t block)
{
    return chunk->taken[block / CHUNK_WORD_BITS] >> block % CHUNK_WORD_BITS & 1;
}

static inline void chunk_mark(struct chunk *chunk, uint32_t first, uint32_t count)
{
    KV_ASSERT(first + count <= ARENA_CHUNK_BLOCKS && chunk->used + count <= ARENA_CHUNK_BLOCKS);
    for (uint32_t block = first; block < first + count; block++) {
        KV_ASSERT(!chunk_is_taken(chunk, block));
        chunk->taken[block / CHUNK_WORD_BITS] |= UINT64_C(1) << block % CHUNK_WORD_BITS;
    }
    chunk->used = (uint16_t)(chunk->used + count);
}

static inline uint32_t chunks_before(uint64_t bytes)
{
    return (uint32_t)((bytes + ARENA_CHUNK_BYTES - 1) / ARENA_CHUNK_BYTES);
}

static inline uint32_t blocks_for(uint64_t bytes)
{
    return (uint32_t)((bytes + ARENA_BLOCK_BYTES - 1) / ARENA_BLOCK_BYTES);
}

static inline bool fits_chunk(uint64_t bytes)
{
    return bytes <= ARENA_CHUNK_BLOCKS * ARENA_BLOCK_BYTES;
}

static inline uint64_t whole_steps(uint64_t bytes)
{
    return (bytes + ARENA_STEP_BYTES - 1) / ARENA_STEP_BYTES * ARENA_STEP_BYTES;
}

/* Returns the first of `count` free chunks, one after the other, which are of `kind` from now on:
 * all zeros, the first `bytes` bytes of which may be touched. NULL: out of memory. */
struct chunk *arena_place_chunks(struct arena *arena, uint32_t count, uint64_t bytes,
                                 enum chunk_kind kind);

/* Gives `count` chunks from `first` on back to the system. */
void arena_remove_chunks(struct arena *arena, struct chunk *first, uint32_t count);

/* Puts a chunk into the list of chunks with room. */
void arena_enlist(struct arena *arena, struct chunk *chunk);

/* Tells processes that have mapped the object where it ends. */
void arena_publish_size(struct arena *arena);

/* Takes a run of `count` blocks, zeros, at most a chunk. Returns its reference; 0: out of memory.
 * */
uint32_t arena_take_blocks(struct arena *arena, uint32_t count);

void arena_give_blocks(struct arena *arena, uint32_t reference, uint32_t count);

#endif
