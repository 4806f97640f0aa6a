#include "kvstore/index/arena_claim.h"

#include <errno.h>

#include "kvstore/index/arena_chunks.h"
#include "kvstore/index/arena_units.h"

/* Memory is behind all of it from here on: to read a hole could fail with a signal. */
static bool open_chunk(struct arena *arena, struct chunk *chunk, enum chunk_kind kind)
{
    uint64_t offset = chunk_offset(arena, chunk);
    uint64_t left = offset < arena->backing.file_bytes ? arena->backing.file_bytes - offset : 0;
    uint64_t bytes = left < ARENA_CHUNK_BYTES ? left : ARENA_CHUNK_BYTES;
    if (chunk->kind == kind)
        return true;
    if (chunk->kind == CHUNK_OF_BLOCKS && chunk->used == 0) {
        chunk->kind = (uint8_t)kind;
        return true;
    }
    if (chunk->kind != CHUNK_FREE || bytes == 0 ||
        !backing_allocate(&arena->backing, chunk_offset(arena, chunk), bytes))
        return false;
    *chunk = (struct chunk){.kind = (uint8_t)kind,
                            .touched = ARENA_CHUNK_BLOCKS,
                            .ready = (uint16_t)(bytes / ARENA_BLOCK_BYTES)};
    arena->counts.chunks++;
    return true;
}

static bool claim_blocks(struct arena *arena, uint64_t offset, uint32_t count)
{
    uint64_t within = offset % ARENA_CHUNK_BYTES;
    uint32_t first = (uint32_t)(within / ARENA_BLOCK_BYTES);
    if (offset >= arena->backing.file_bytes || within % ARENA_BLOCK_BYTES != 0)
        return false;
    struct chunk *chunk = &arena->chunks[offset / ARENA_CHUNK_BYTES];
    if (!open_chunk(arena, chunk, CHUNK_OF_BLOCKS) || first + count > chunk->ready)
        return false;
    for (uint32_t block = first; block < first + count; block++)
        if (chunk_is_taken(chunk, block))
            return false;
    chunk_mark(chunk, first, count);
    ALLOW(arena->backing.base + offset, (size_t)count * ARENA_BLOCK_BYTES);
    arena->counts.blocks += count;
    return true;
}

static struct slab *claim_slab(struct arena *arena, uint64_t offset, uint32_t unit_bytes)
{
    uint64_t within = offset % ARENA_CHUNK_BYTES;
    uint64_t start = offset - within % ARENA_BLOCK_BYTES;
    for (size_t i = 0; i < arena->slab_count; i++)
        if (arena->slabs[i].block == reference_of(start))
            return arena->slabs[i].unit_bytes == unit_bytes ? &arena->slabs[i] : NULL;
    struct slab *slab = arena_free_slab(arena);
    if (!slab || !claim_blocks(arena, start, 1))
        return NULL;
    *slab = (struct slab){.block = reference_of(start), .unit_bytes = unit_bytes};
    return slab;
}

static bool claim_unit(struct arena *arena, uint64_t offset, uint32_t unit_bytes)
{
    struct slab *slab = claim_slab(arena, offset, unit_bytes);
    if (!slab)
        return false;
    uint64_t within = offset - offset_of(slab->block);
    uint64_t unit = UINT64_C(1) << within / unit_bytes % ARENA_MAX_UNITS;
    bool possible = within % unit_bytes == 0 && (unit & arena_all_units(unit_bytes)) != 0 &&
                    within + unit_bytes <= ARENA_BLOCK_BYTES && (slab->taken & unit) == 0;
    if (possible)
        slab->taken |= unit;
    if (slab->taken == 0) {
        arena_give_blocks(arena, slab->block, 1);
        *slab = (struct slab){0};
    }
    return possible;
}

static bool claim_whole_chunks(struct arena *arena, uint64_t offset, uint64_t bytes)
{
    uint32_t first = (uint32_t)(offset / ARENA_CHUNK_BYTES);
    uint32_t count = chunks_before(bytes);
    if (offset % ARENA_CHUNK_BYTES != 0 || bytes > arena->backing.file_bytes ||
        offset > arena->backing.file_bytes - count * ARENA_CHUNK_BYTES)
        return false;
    for (uint32_t number = first; number < first + count; number++)
        if (arena->chunks[number].used > 0 || arena->chunks[number].kind == CHUNK_WHOLE ||
            !open_chunk(arena, &arena->chunks[number], CHUNK_OF_BLOCKS))
            return false;
    for (uint32_t number = first; number < first + count; number++)
        arena->chunks[number].kind = CHUNK_WHOLE;
    arena->counts.blocks += count * ARENA_CHUNK_BLOCKS;
    return true;
}

bool arena_begin_claims(struct arena *arena, uint64_t first_bytes)
{
    struct chunk *chunk = arena->chunks;
    errno = EINVAL;
    if (arena->backing.file_bytes < whole_steps(first_bytes) ||
        !open_chunk(arena, chunk, CHUNK_OF_BLOCKS))
        return false;
    arena->is_claimed = true;
    chunk_mark(chunk, 0, blocks_for(first_bytes));
    return true;
}

bool arena_claim(struct arena *arena, uint32_t reference, uint64_t bytes)
{
    uint64_t offset = offset_of(reference);
    pthread_mutex_lock(&arena->mutex);
    bool claimed = bytes <= ARENA_MAX_UNIT_BYTES
                       ? claim_unit(arena, offset, arena_unit_bytes(bytes))
                   : !fits_chunk(bytes) ? claim_whole_chunks(arena, offset, bytes)
                                        : claim_blocks(arena, offset, blocks_for(bytes));
    pthread_mutex_unlock(&arena->mutex);
    return claimed;
}

void arena_end_claims(struct arena *arena)
{
    pthread_mutex_lock(&arena->mutex);
    arena->is_claimed = false;
    uint32_t end = chunks_before(arena->backing.file_bytes);
    for (uint32_t number = 0; number < end; number++) {
        struct chunk *chunk = &arena->chunks[number];
        if (chunk->kind == CHUNK_FREE)
            backing_drop(&arena->backing, chunk_offset(arena, chunk), ARENA_CHUNK_BYTES);
        else if (chunk->kind == CHUNK_OF_BLOCKS && chunk->used == 0)
            arena_remove_chunks(arena, chunk, 1);
        else if (chunk->kind == CHUNK_OF_BLOCKS && chunk->used < ARENA_CHUNK_BLOCKS)
            arena_enlist(arena, chunk);
    }
    arena_publish_size(arena);
    pthread_mutex_unlock(&arena->mutex);
}
