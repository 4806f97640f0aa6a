/*
 * index_claim: checks an index that a process which died has left in an arena, so that the index
 * can be used again (index_resume).
 */
#ifndef MQKV_KVSTORE_INDEX_INDEX_CLAIM_H
#define MQKV_KVSTORE_INDEX_INDEX_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index/arena.h"

/* Claims the directory and the segments that *words names in `arena`, and checks that they make an
 * index: each item is in the segment of its hash, where a lookup finds it, with an offset from
 * min_offset on and below end_offset; keys, segments and expiring_segments of the words are as
 * counted. *sum is set to what index_sum would be. False: nothing is claimed. Takes some
 * nanoseconds a key. */
bool index_claim(struct arena *arena, const struct shared_generation *words, uint64_t min_offset,
                 uint64_t end_offset, uint64_t *sum);

/* Gives the directory and the segments of the sound index of *words back to `arena`. */
void index_give_up(struct arena *arena, const struct shared_generation *words);

#endif
