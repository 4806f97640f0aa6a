/*
 * arena_claim: what is in use of an arena that was adopted (arena_adopt): its lists begin empty,
 * and whoever knows the object claims one thing after the other.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_CLAIM_H
#define MQKV_KVSTORE_INDEX_ARENA_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* For arena_adopt: the first bytes are in use. False, errno: the object has fewer, or no memory. */
bool arena_begin_claims(struct arena *arena, uint64_t first_bytes);

/* Makes one thing that the arena had given out, with so many bytes, what is in use again; false: no
 * such thing can have been there, or some of it is in use. Then it may be read. Believes nothing
 * that is in the object. arena_give undoes it. */
bool arena_claim(struct arena *arena, uint32_t reference, uint64_t bytes);

/* Gives back what was not claimed. */
void arena_end_claims(struct arena *arena);

#endif
