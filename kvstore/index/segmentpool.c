#include "kvstore/index/segmentpool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common/memory/fork_mutex.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define ALLOW(at, bytes)  ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define FORBID(at, bytes) ((void)(at))
#define ALLOW(at, bytes)  ((void)(at))
#endif

/* At the beginning of each chunk. One with room is in the list. */
struct chunk {
    struct chunk *next;
    struct chunk *previous;
    struct free_block *given_back;
    uint16_t used;    /* blocks in use */
    uint16_t touched; /* blocks that have been in use; the others are zero */
    bool is_huge;     /* from its first byte on, or asked to become it */
};

/* A block that is not in use. */
struct free_block {
    struct free_block *next;
};

#define CHUNK_BLOCKS ((SEGMENTPOOL_CHUNK_BYTES - sizeof(struct chunk)) / SEGMENTPOOL_BLOCK_BYTES)

_Static_assert(sizeof(struct chunk) % 16 == 0 && SEGMENTPOOL_BLOCK_BYTES % 16 == 0, "alignment");

FORK_MUTEX(mutex); /* for all below, and the chunks */
static struct chunk *with_room;
static struct segmentpool_counts counts;

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static size_t past_chunk_start(const void *at)
{
    return (uintptr_t)at % SEGMENTPOOL_CHUNK_BYTES;
}

/* Where the kernel does not align large mappings by itself, what is too much is given back. */
static void *map_chunk(void)
{
    char *at = map(SEGMENTPOOL_CHUNK_BYTES);
    if (!at || past_chunk_start(at) == 0)
        return at;
    munmap(at, SEGMENTPOOL_CHUNK_BYTES);
    at = map(2 * SEGMENTPOOL_CHUNK_BYTES);
    if (!at)
        return NULL;
    size_t before = SEGMENTPOOL_CHUNK_BYTES - past_chunk_start(at);
    munmap(at, before);
    if (before < SEGMENTPOOL_CHUNK_BYTES)
        munmap(at + before + SEGMENTPOOL_CHUNK_BYTES, SEGMENTPOOL_CHUNK_BYTES - before);
    return at + before;
}

static void enlist(struct chunk *chunk)
{
    chunk->previous = NULL;
    chunk->next = with_room;
    if (with_room)
        with_room->previous = chunk;
    with_room = chunk;
}

static void delist(struct chunk *chunk)
{
    *(chunk->previous ? &chunk->previous->next : &with_room) = chunk->next;
    if (chunk->next)
        chunk->next->previous = chunk->previous;
}

static void ask_for_huge_page(void *chunk)
{
    madvise(chunk, SEGMENTPOOL_CHUNK_BYTES, MADV_HUGEPAGE);
}

static struct chunk *add_chunk(void)
{
    struct chunk *chunk = map_chunk();
    if (!chunk)
        return NULL;
    bool is_huge = counts.chunks >= SEGMENTPOOL_SMALL_CHUNKS;
    if (is_huge) /* before the first touch */
        ask_for_huge_page(chunk);
    chunk->is_huge = is_huge;
    enlist(chunk);
    counts.chunks++;
    return chunk;
}

static void remove_chunk(struct chunk *chunk)
{
    delist(chunk);
    ALLOW(chunk, SEGMENTPOOL_CHUNK_BYTES);
    munmap(chunk, SEGMENTPOOL_CHUNK_BYTES);
    counts.chunks--;
}

/* From a chunk with room. */
static void *take_block(struct chunk *chunk)
{
    struct free_block *block = chunk->given_back;
    if (block) {
        ALLOW(block, SEGMENTPOOL_BLOCK_BYTES);
        chunk->given_back = block->next;
        memset(block, 0, SEGMENTPOOL_BLOCK_BYTES);
    } else {
        block = (void *)((char *)(chunk + 1) + (size_t)chunk->touched * SEGMENTPOOL_BLOCK_BYTES);
        chunk->touched++;
    }
    chunk->used++;
    counts.blocks++;
    if (chunk->used == CHUNK_BLOCKS) {
        delist(chunk);
        if (!chunk->is_huge)
            ask_for_huge_page(chunk);
        chunk->is_huge = true;
    }
    return block;
}

void *segmentpool_take(void)
{
    pthread_mutex_lock(&mutex);
    struct chunk *chunk = with_room ? with_room : add_chunk();
    void *block = chunk ? take_block(chunk) : NULL;
    pthread_mutex_unlock(&mutex);
    return block;
}

static void give_block(struct chunk *chunk, struct free_block *block)
{
    if (chunk->used == CHUNK_BLOCKS)
        enlist(chunk);
    block->next = chunk->given_back;
    chunk->given_back = block;
    FORBID(block, SEGMENTPOOL_BLOCK_BYTES);
    chunk->used--;
    counts.blocks--;
    if (chunk->used == 0)
        remove_chunk(chunk);
}

void segmentpool_give(void *block)
{
    if (!block)
        return;
    struct chunk *chunk = (void *)((char *)block - past_chunk_start(block));
    pthread_mutex_lock(&mutex);
    give_block(chunk, block);
    pthread_mutex_unlock(&mutex);
}

struct segmentpool_counts segmentpool_counts(void)
{
    pthread_mutex_lock(&mutex);
    struct segmentpool_counts now = counts;
    pthread_mutex_unlock(&mutex);
    return now;
}
