/*
 * arena_units: less than a block of an arena (arena.h): the units of slabs. For the files of the
 * arena only.
 *
 * Everything here: holds the arena's mutex, or nobody else knows the arena yet.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_UNITS_H
#define MQKV_KVSTORE_INDEX_ARENA_UNITS_H

#include <stdint.h>

#include "kvstore/index/arena_chunks.h"

/* What is larger is made of blocks. */
#define ARENA_MAX_UNIT_BYTES 512u
#define ARENA_MAX_UNITS      64u

/* The unit that so many bytes have, at most ARENA_MAX_UNIT_BYTES. */
uint32_t arena_unit_bytes(uint64_t bytes);

/* The bits of a slab all of whose units are taken. */
uint64_t arena_all_units(uint32_t unit_bytes);

/* A slab without a block. NULL: out of memory. */
struct slab *arena_free_slab(struct arena *arena);

/* Zeros. Returns their reference; 0: out of memory. */
uint32_t arena_take_unit(struct arena *arena, uint64_t bytes);

void arena_give_unit(struct arena *arena, uint32_t reference);

#endif
