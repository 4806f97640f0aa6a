#include "kvstore/index/arena.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/index/arena_chunks.h"
#include "kvstore/index/arena_claim.h"
#include "kvstore/index/arena_units.h"

/* The arena is as large as references reach. The sanitizers keep shadow memory of it. */
#ifdef MQKV_SANITIZER
#define MAX_BYTES (UINT64_C(4) << 30)
#else
#define MAX_BYTES (UINT64_C(1) << 36)
#endif

static uint32_t take_whole_chunks(struct arena *arena, uint64_t bytes)
{
    uint32_t count = chunks_before(bytes);
    struct chunk *first = arena_place_chunks(arena, count, count * ARENA_CHUNK_BYTES, CHUNK_WHOLE);
    if (!first)
        return 0;
    arena->counts.blocks += count * ARENA_CHUNK_BLOCKS;
    return reference_of(chunk_offset(arena, first));
}

static void give_whole_chunks(struct arena *arena, uint32_t reference, uint64_t bytes)
{
    uint32_t count = chunks_before(bytes);
    struct chunk *first = &arena->chunks[offset_of(reference) / ARENA_CHUNK_BYTES];
    arena->counts.blocks -= count * ARENA_CHUNK_BLOCKS;
    if (!arena->is_claimed)
        arena_remove_chunks(arena, first, count);
    for (uint32_t i = 0; arena->is_claimed && i < count; i++)
        first[i].kind = CHUNK_OF_BLOCKS; /* of which none is in use */
}

uint32_t arena_take(struct arena *arena, uint64_t bytes)
{
    pthread_mutex_lock(&arena->mutex);
    uint32_t reference = bytes <= ARENA_MAX_UNIT_BYTES ? arena_take_unit(arena, bytes)
                         : !fits_chunk(bytes)          ? take_whole_chunks(arena, bytes)
                                              : arena_take_blocks(arena, blocks_for(bytes));
    pthread_mutex_unlock(&arena->mutex);
    return reference;
}

void arena_give(struct arena *arena, uint32_t reference, uint64_t bytes)
{
    if (reference == 0)
        return;
    pthread_mutex_lock(&arena->mutex);
    if (bytes <= ARENA_MAX_UNIT_BYTES)
        arena_give_unit(arena, reference);
    else if (!fits_chunk(bytes))
        give_whole_chunks(arena, reference, bytes);
    else
        arena_give_blocks(arena, reference, blocks_for(bytes));
    pthread_mutex_unlock(&arena->mutex);
}

/* Making and ending ---------------------------------------------------------------------------- */

/* Places the first chunk, with the bytes that are not given out. False: there is no room; an arena
 * whose object has none is of no use. */
static bool arena_begin_empty(struct arena *arena, uint64_t first_bytes)
{
    uint64_t bytes = whole_steps(first_bytes);
    struct chunk *chunk = arena_place_chunks(arena, 1, bytes, CHUNK_OF_BLOCKS);
    if (!chunk || (arena->backing.fd >= 0 && chunk->is_own))
        return false;
    chunk->ready = (uint16_t)(chunk->is_own ? ARENA_CHUNK_BLOCKS : bytes / ARENA_BLOCK_BYTES);
    chunk_mark(chunk, 0, blocks_for(first_bytes));
    chunk->touched = chunk->used;
    arena_enlist(arena, chunk);
    return true;
}

static struct arena *arena_make(int fd, uint64_t first_bytes,
                                bool (*begin_it)(struct arena *arena, uint64_t first_bytes))
{
    struct arena *arena = calloc(1, sizeof *arena);
    if (!arena || !backing_reserve(&arena->backing, fd, MAX_BYTES)) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        free(arena);
        errno = reason;
        return NULL;
    }
    pthread_mutex_init(&arena->mutex, NULL);
    arena->chunk_room = (uint32_t)(arena->backing.bytes / ARENA_CHUNK_BYTES);
    /* The table of chunks is mostly address space. */
    arena->chunks = mmap(NULL, arena->chunk_room * sizeof *arena->chunks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena->chunks == MAP_FAILED)
        arena->chunks = NULL;
    if (!arena->chunks || !begin_it(arena, first_bytes)) {
        int reason = errno;
        arena_free(arena);
        errno = reason;
        return NULL;
    }
    return arena;
}

struct arena *arena_create(int fd, uint64_t first_bytes)
{
    return arena_make(fd, first_bytes, arena_begin_empty);
}

struct arena *arena_adopt(int fd, uint64_t first_bytes)
{
    return arena_make(fd, first_bytes, arena_begin_claims);
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    for (uint32_t number = 0; arena->chunks && number < arena->chunk_room; number++)
        if (arena->chunks[number].kind != CHUNK_FREE)
            ALLOW(arena->backing.base + number * ARENA_CHUNK_BYTES, ARENA_CHUNK_BYTES);
    if (arena->chunks)
        munmap(arena->chunks, arena->chunk_room * sizeof *arena->chunks);
    backing_release(&arena->backing);
    pthread_mutex_destroy(&arena->mutex);
    free(arena->slabs);
    free(arena);
}

char *arena_base(const struct arena *arena)
{
    return arena->backing.base;
}

bool arena_is_shared(const struct arena *arena)
{
    return arena->backing.fd >= 0;
}

bool arena_object_is_gone(const struct arena *arena)
{
    struct stat facts;
    return arena_is_shared(arena) && fstat(arena->backing.fd, &facts) == 0 && facts.st_nlink == 0;
}

struct arena_counts arena_counts(struct arena *arena)
{
    pthread_mutex_lock(&arena->mutex);
    struct arena_counts now = arena->counts;
    pthread_mutex_unlock(&arena->mutex);
    return now;
}
