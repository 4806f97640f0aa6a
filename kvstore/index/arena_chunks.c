#include "kvstore/index/arena_chunks.h"

#include <string.h>

#include "common/report/log.h"

/* How many chunks are looked at for a run of blocks before a new one is taken. */
#define RUN_LOOKS 16u

#define NO_CHUNK UINT32_MAX

_Static_assert(ARENA_BLOCK_BYTES % SHARED_STORE_REFERENCE_UNIT == 0, "alignment");

/* The first free block; ARENA_CHUNK_BLOCKS: there is none. */
static uint32_t first_free(const struct chunk *chunk)
{
    for (uint32_t word = 0; word < CHUNK_WORDS; word++)
        if (chunk->taken[word] != UINT64_MAX)
            return word * CHUNK_WORD_BITS + (uint32_t)__builtin_ctzll(~chunk->taken[word]);
    return ARENA_CHUNK_BLOCKS;
}

/* Returns where `count` free blocks lie one after the other; ARENA_CHUNK_BLOCKS: nowhere. */
static uint32_t find_run(const struct chunk *chunk, uint32_t count)
{
    uint32_t first = first_free(chunk);
    for (uint32_t block = first; block < ARENA_CHUNK_BLOCKS && block - first < count; block++)
        if (chunk_is_taken(chunk, block))
            first = block + 1;
    return first + count <= ARENA_CHUNK_BLOCKS ? first : ARENA_CHUNK_BLOCKS;
}

/* Chunks --------------------------------------------------------------------------------------- */

void arena_enlist(struct arena *arena, struct chunk *chunk)
{
    uint32_t number = (uint32_t)(chunk - arena->chunks);
    if (chunk->is_listed)
        return;
    chunk->is_listed = true;
    chunk->previous = 0;
    chunk->next = arena->with_room;
    if (chunk->next)
        arena->chunks[chunk->next - 1].previous = number + 1;
    arena->with_room = number + 1;
}

static void delist(struct arena *arena, struct chunk *chunk)
{
    if (!chunk->is_listed)
        return;
    chunk->is_listed = false;
    *(chunk->previous ? &arena->chunks[chunk->previous - 1].next : &arena->with_room) = chunk->next;
    if (chunk->next)
        arena->chunks[chunk->next - 1].previous = chunk->previous;
}

/* The first of `count` free chunks, one after the other, in [from, to); NO_CHUNK: there are none.
 * */
static uint32_t find_chunks(const struct arena *arena, uint32_t from, uint32_t to, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t number = from; number < to; number++) {
        found = arena->chunks[number].kind == CHUNK_FREE ? found + 1 : 0;
        if (found == count)
            return number + 1 - count;
    }
    return NO_CHUNK;
}

void arena_publish_size(struct arena *arena)
{
    struct shared_store *header = (void *)arena->backing.base;
    arena->counts.shared_bytes = arena->backing.file_bytes;
    __atomic_store_n(&header->shared_bytes, arena->backing.file_bytes, __ATOMIC_RELEASE);
}

/* Allocates memory of the object for the first `bytes` bytes of free chunks. Returns the first
 * chunk; NO_CHUNK: there is no room. */
static uint32_t place_in_object(struct arena *arena, uint32_t count, uint64_t bytes)
{
    uint32_t end =
        arena->counts.own_chunks > 0 ? chunks_before(arena->backing.file_bytes) : arena->chunk_room;
    uint32_t first = find_chunks(arena, 0, end, count);
    if (first == NO_CHUNK)
        return NO_CHUNK;
    uint64_t offset = (uint64_t)first * ARENA_CHUNK_BYTES;
    bool grows = offset + bytes > arena->backing.file_bytes;
    if (arena->counts.own_chunks > 0 && grows)
        return NO_CHUNK;
    if (!backing_allocate(&arena->backing, offset, bytes))
        return NO_CHUNK;
    if (grows)
        arena_publish_size(arena);
    return first;
}

static uint32_t place_apart(struct arena *arena, uint32_t count)
{
    uint32_t from = chunks_before(arena->backing.file_bytes);
    uint32_t first = find_chunks(arena, from, arena->chunk_room, count);
    if (first == NO_CHUNK || !backing_own(&arena->backing, (uint64_t)first * ARENA_CHUNK_BYTES,
                                          count * ARENA_CHUNK_BYTES))
        return NO_CHUNK;
    arena->counts.own_chunks += count;
    return first;
}

/* The object is never given up for good: a full file system may have room later. */
struct chunk *arena_place_chunks(struct arena *arena, uint32_t count, uint64_t bytes,
                                 enum chunk_kind kind)
{
    bool in_object = arena->backing.fd >= 0;
    uint32_t first = in_object ? place_in_object(arena, count, bytes) : NO_CHUNK;
    bool own = first == NO_CHUNK;
    if (own)
        first = place_apart(arena, count);
    if (first == NO_CHUNK)
        return NULL;
    if (in_object && own && arena->counts.own_chunks == count) /* the first */
        log_warn("shared memory for the index cannot grow (is /dev/shm full, or a limit reached?): "
                 "what it needs more is the daemon's own, keys there are read by message, and a "
                 "start after a kill takes longer");
    arena->counts.chunks += count;
    for (uint32_t number = first; number < first + count; number++)
        arena->chunks[number] = (struct chunk){.kind = kind, .is_own = own};
    return &arena->chunks[first];
}

static void want_large_page(const struct arena *arena, struct chunk *chunk)
{
    if (!chunk->is_large)
        backing_want_large_pages(&arena->backing, chunk_offset(arena, chunk), ARENA_CHUNK_BYTES,
                                 chunk->is_own);
    chunk->is_large = true;
}

static struct chunk *add_chunk(struct arena *arena)
{
    bool small = arena->counts.chunks < ARENA_SMALL_CHUNKS;
    uint64_t bytes = small ? ARENA_STEP_BYTES : ARENA_CHUNK_BYTES;
    struct chunk *chunk = arena_place_chunks(arena, 1, bytes, CHUNK_OF_BLOCKS);
    if (!chunk)
        return NULL;
    bool whole = !small || chunk->is_own;
    chunk->ready = (uint16_t)(whole ? ARENA_CHUNK_BLOCKS : ARENA_STEP_BYTES / ARENA_BLOCK_BYTES);
    if (!small) /* before the first touch */
        want_large_page(arena, chunk);
    arena_enlist(arena, chunk);
    return chunk;
}

void arena_remove_chunks(struct arena *arena, struct chunk *first, uint32_t count)
{
    uint64_t offset = chunk_offset(arena, first);
    uint64_t bytes = count * ARENA_CHUNK_BYTES;
    ALLOW(arena->backing.base + offset, bytes);
    if (first->is_own)
        backing_disown(&arena->backing, offset, bytes);
    else
        backing_drop(&arena->backing, offset, bytes);
    KV_ASSERT(arena->counts.own_chunks <= arena->counts.chunks && count <= arena->counts.chunks);
    arena->counts.own_chunks -= first->is_own ? count : 0;
    arena->counts.chunks -= count;
    for (uint32_t i = 0; i < count; i++) {
        delist(arena, &first[i]);
        first[i] = (struct chunk){.kind = CHUNK_FREE};
    }
}

/* Blocks --------------------------------------------------------------------------------------- */

/* Allocates the blocks before `end` of a chunk of the object, so that they may be touched. */
static bool make_ready(struct arena *arena, struct chunk *chunk, uint32_t end)
{
    if (end <= chunk->ready)
        return true;
    uint64_t from =
        (uint64_t)chunk->ready * ARENA_BLOCK_BYTES / ARENA_STEP_BYTES * ARENA_STEP_BYTES;
    uint64_t to = ((uint64_t)end * ARENA_BLOCK_BYTES + ARENA_STEP_BYTES - 1) / ARENA_STEP_BYTES *
                  ARENA_STEP_BYTES;
    uint64_t offset = chunk_offset(arena, chunk);
    bool grows = offset + to > arena->backing.file_bytes;
    if (grows && arena->counts.own_chunks > 0 &&
        chunks_before(arena->backing.file_bytes) != chunks_before(offset + to))
        return false;
    if (!backing_allocate(&arena->backing, offset + from, to - from))
        return false;
    if (grows)
        arena_publish_size(arena);
    chunk->ready =
        (uint16_t)(to == ARENA_CHUNK_BYTES ? ARENA_CHUNK_BLOCKS : to / ARENA_BLOCK_BYTES);
    return true;
}

static uint32_t take_chunk_blocks(struct arena *arena, struct chunk *chunk, uint32_t first,
                                  uint32_t count)
{
    uint64_t offset = chunk_offset(arena, chunk) + (uint64_t)first * ARENA_BLOCK_BYTES;
    char *at = arena->backing.base + offset;
    ALLOW(at, (size_t)count * ARENA_BLOCK_BYTES);
    if (first < chunk->touched)
        memset(at, 0, (size_t)count * ARENA_BLOCK_BYTES);
    if (first + count > chunk->touched)
        chunk->touched = (uint16_t)(first + count);
    chunk_mark(chunk, first, count);
    arena->counts.blocks += count;
    if (chunk->used == ARENA_CHUNK_BLOCKS) {
        delist(arena, chunk);
        want_large_page(arena, chunk);
    }
    return reference_of(offset);
}

/* Takes a run of blocks from a chunk; 0: the chunk has none. A chunk without more memory behind it
 * is looked at again when a block of it was given back. */
static uint32_t try_chunk(struct arena *arena, struct chunk *chunk, uint32_t count)
{
    uint32_t first = find_run(chunk, count);
    if (first >= ARENA_CHUNK_BLOCKS)
        return 0;
    if (make_ready(arena, chunk, first + count))
        return take_chunk_blocks(arena, chunk, first, count);
    if (count == 1)
        delist(arena, chunk);
    return 0;
}

uint32_t arena_take_blocks(struct arena *arena, uint32_t count)
{
    uint32_t reference = 0;
    uint32_t next = arena->with_room;
    KV_ASSERT(mutex_is_held(&arena->mutex) && count > 0 && count <= ARENA_CHUNK_BLOCKS);
    for (unsigned looks = 0; next && !reference && (count == 1 || looks < RUN_LOOKS); looks++) {
        struct chunk *chunk = &arena->chunks[next - 1];
        next = chunk->next;
        reference = try_chunk(arena, chunk, count);
    }
    if (reference)
        return reference;
    struct chunk *chunk = add_chunk(arena);
    if (!chunk)
        return 0;
    reference = try_chunk(arena, chunk, count);
    if (chunk->used == 0) /* the object has room for a step, but not for the run */
        arena_remove_chunks(arena, chunk, 1);
    return reference;
}

void arena_give_blocks(struct arena *arena, uint32_t reference, uint32_t count)
{
    uint64_t offset = offset_of(reference);
    struct chunk *chunk = &arena->chunks[offset / ARENA_CHUNK_BYTES];
    uint32_t first = (uint32_t)(offset % ARENA_CHUNK_BYTES / ARENA_BLOCK_BYTES);
    KV_ASSERT(mutex_is_held(&arena->mutex) && chunk->kind == CHUNK_OF_BLOCKS);
    KV_ASSERT(offset % ARENA_CHUNK_BYTES % ARENA_BLOCK_BYTES == 0);
    FORBID(arena->backing.base + offset, (size_t)count * ARENA_BLOCK_BYTES);
    KV_ASSERT(first + count <= ARENA_CHUNK_BLOCKS && count <= chunk->used);
    for (uint32_t block = first; block < first + count; block++) {
        KV_ASSERT(chunk_is_taken(chunk, block));
        chunk->taken[block / CHUNK_WORD_BITS] &= ~(UINT64_C(1) << block % CHUNK_WORD_BITS);
    }
    chunk->used = (uint16_t)(chunk->used - count);
    arena->counts.blocks -= count;
    if (arena->is_claimed)
        return;
    if (chunk->used == 0)
        arena_remove_chunks(arena, chunk, 1);
    else
        arena_enlist(arena, chunk);
}
