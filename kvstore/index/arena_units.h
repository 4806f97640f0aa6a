/*
 * arena_units: pieces of an arena (arena.h) that are smaller than a block: the units of slabs. For
 * the arena's modules only.
 *
 * The caller of each function holds the arena's mutex, or no other thread knows the arena yet.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_UNITS_H
#define MQKV_KVSTORE_INDEX_ARENA_UNITS_H

#include <stdint.h>

#include "kvstore/index/arena_chunks.h"

/* Larger pieces are made of blocks. */
#define ARENA_MAX_UNIT_BYTES 512u
#define ARENA_MAX_UNITS      64u

/* The size of the unit for a piece of `bytes`, at most ARENA_MAX_UNIT_BYTES. */
uint32_t arena_unit_bytes(uint64_t bytes);

/* The bits of a slab all of whose units are taken. */
uint64_t arena_all_units(uint32_t unit_bytes);

/* A slab without a block. NULL: out of memory. */
struct slab *arena_free_slab(struct arena *arena);

/* Takes a unit for `bytes` bytes, zeros. Returns its reference; 0: out of memory. */
uint32_t arena_take_unit(struct arena *arena, uint64_t bytes);

void arena_give_unit(struct arena *arena, uint32_t reference);

#endif
