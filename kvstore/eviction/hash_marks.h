/*
 * hash_marks: a set of hashes of keys, each perhaps several times: the hashes that still stand in a
 * queue although their key has gone.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_KVSTORE_EVICTION_HASH_MARKS_H
#define MQKV_KVSTORE_EVICTION_HASH_MARKS_H

#include <stdbool.h>
#include <stdint.h>

/* {0}: empty. */
struct hash_marks {
    uint32_t *slots; /* 0: free; hash 0 counts as 1 */
    uint32_t mask;
    uint32_t count;
};

/* Adds a mark of `hash`. Without memory the mark is lost. */
void hash_marks_add(struct hash_marks *marks, uint32_t hash);

/* Takes one mark of `hash` out. False: there is none. */
bool hash_marks_take(struct hash_marks *marks, uint32_t hash);

/* Takes all marks out, and frees the memory. */
void hash_marks_clear(struct hash_marks *marks);

uint64_t hash_marks_memory_bytes(const struct hash_marks *marks);

#endif
