#include "kvstore/index/arena_units.h"

#include <stdlib.h>
#include <string.h>

/* Units have this size or ARENA_MAX_UNIT_BYTES. */
#define SMALL_UNIT_BYTES 64u

uint32_t arena_unit_bytes(uint64_t bytes)
{
    return bytes <= SMALL_UNIT_BYTES ? SMALL_UNIT_BYTES : ARENA_MAX_UNIT_BYTES;
}

uint64_t arena_all_units(uint32_t unit_bytes)
{
    uint32_t count = ARENA_BLOCK_BYTES / unit_bytes;
    return count >= ARENA_MAX_UNITS ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

struct slab *arena_free_slab(struct arena *arena)
{
    for (size_t i = 0; i < arena->slab_count; i++)
        if (arena->slabs[i].block == 0)
            return &arena->slabs[i];
    size_t room = arena->slab_count ? 2 * arena->slab_count : 8;
    struct slab *slabs = realloc(arena->slabs, room * sizeof *slabs);
    if (!slabs)
        return NULL;
    memset(slabs + arena->slab_count, 0, (room - arena->slab_count) * sizeof *slabs);
    struct slab *slab = slabs + arena->slab_count;
    arena->slabs = slabs;
    arena->slab_count = room;
    return slab;
}

static struct slab *slab_with_room(struct arena *arena, uint32_t unit_bytes)
{
    for (size_t i = 0; i < arena->slab_count; i++) {
        struct slab *slab = &arena->slabs[i];
        if (slab->block && slab->unit_bytes == unit_bytes &&
            slab->taken != arena_all_units(unit_bytes))
            return slab;
    }
    struct slab *slab = arena_free_slab(arena);
    uint32_t block = slab ? arena_take_blocks(arena, 1) : 0;
    if (!block)
        return NULL;
    *slab = (struct slab){.block = block, .unit_bytes = unit_bytes};
    return slab;
}

uint32_t arena_take_unit(struct arena *arena, uint64_t bytes)
{
    uint32_t size = arena_unit_bytes(bytes);
    struct slab *slab = slab_with_room(arena, size);
    if (!slab)
        return 0;
    KV_ASSERT((slab->taken & ~arena_all_units(size)) == 0);
    uint32_t unit = (uint32_t)__builtin_ctzll(~slab->taken);
    slab->taken |= UINT64_C(1) << unit;
    uint64_t offset = offset_of(slab->block) + (uint64_t)unit * size;
    memset(arena->backing.base + offset, 0, size);
    return reference_of(offset);
}

void arena_give_unit(struct arena *arena, uint32_t reference)
{
    struct slab *slab = arena->slabs;
    uint64_t offset = offset_of(reference);
    while (!slab->block || offset < offset_of(slab->block) ||
           offset >= offset_of(slab->block) + ARENA_BLOCK_BYTES)
        slab++;
    KV_ASSERT((slab->taken >> (offset - offset_of(slab->block)) / slab->unit_bytes & 1) == 1);
    slab->taken &= ~(UINT64_C(1) << (offset - offset_of(slab->block)) / slab->unit_bytes);
    if (slab->taken == 0) {
        arena_give_blocks(arena, slab->block, 1);
        *slab = (struct slab){0};
    }
}
