/*
 * index_claim: an index that a process which died has left in an arena is looked through, so that
 * it can be used again (index_resume).
 */
#ifndef MQKV_KVSTORE_INDEX_INDEX_CLAIM_H
#define MQKV_KVSTORE_INDEX_INDEX_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index/arena.h"

/* Claims the directory and the segments that *words names, and checks that an index can consist of
 * them: each item in the segment of its hash, where a lookup finds it, and its offset from
 * min_offset on and below end_offset; keys, segments and expiring_segments of the words as counted.
 * *sum: what index_sum would be. False: nothing is claimed. Time: some nanoseconds a key. */
bool index_claim(struct arena *arena, const struct shared_generation *words, uint64_t min_offset,
                 uint64_t end_offset, uint64_t *sum);

/* Gives the directory and the segments of a sound index back to the arena. */
void index_give_up(struct arena *arena, const struct shared_generation *words);

#endif
