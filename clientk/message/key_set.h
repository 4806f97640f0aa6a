/*
 * key_set: the keys of the operations in flight, by their hashes, which decide whether an operation
 * may be sent beside them. Two reads of a key may overtake each other; nothing may overtake a
 * write.
 */
#ifndef MQKV_CLIENTK_MESSAGE_KEY_SET_H
#define MQKV_CLIENTK_MESSAGE_KEY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key_use;

/* Start from {0}. */
struct key_set {
    struct key_use *slots; /* open addressing, linear probing */
    size_t slot_count;     /* 0 or a power of two */
    size_t used;
};

/* False: no memory, and nothing was added. */
bool key_set_add(struct key_set *set, uint64_t key_hash, bool writes);

/* Removes what was added once. */
void key_set_remove(struct key_set *set, uint64_t key_hash, bool writes);

/* True if such an operation must wait for one that is in the set. */
bool key_set_conflicts(const struct key_set *set, uint64_t key_hash, bool writes);

void key_set_free(struct key_set *set);

#endif
