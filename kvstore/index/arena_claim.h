/*
 * arena_claim: the pieces in use of an arena that was adopted (arena_adopt). The arena's lists
 * begin empty, and a caller that knows the object claims one piece after the other.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_CLAIM_H
#define MQKV_KVSTORE_INDEX_ARENA_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* For arena_adopt: claims the first `first_bytes` bytes. False, errno: the object has fewer bytes,
 * or memory is short. */
bool arena_begin_claims(struct arena *arena, uint64_t first_bytes);

/* Claims the piece `reference` of `bytes`, which the arena had given out: the piece is in use
 * again, and may be read. False: there cannot have been such a piece, or a part of it is in use.
 * Relies on nothing in the object. arena_give undoes a claim. */
bool arena_claim(struct arena *arena, uint32_t reference, uint64_t bytes);

/* Gives back all that was not claimed. */
void arena_end_claims(struct arena *arena);

#endif
