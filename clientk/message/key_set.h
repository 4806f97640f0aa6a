/*
 * key_set: the keys of the operations in flight, by their hashes. The set decides whether an
 * operation may be sent beside those in flight: two reads of a key may overtake each other, but
 * nothing may overtake a write. Two keys with the same hash cost time, never correctness.
 *
 * Threads: as the window.
 */
#ifndef MQKV_CLIENTK_MESSAGE_KEY_SET_H
#define MQKV_CLIENTK_MESSAGE_KEY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

struct key_use;

/* Start from {0}. */
struct key_set {
    struct key_use *slots; /* open addressing, linear probing */
    size_t slot_count;     /* 0 or a power of two */
    size_t used;
};

/* Returns the 64 bits that stand for `key`. */
uint64_t key_set_hash(struct kv_slice key);

/* Adds an operation on the key of that hash, which writes it or not. False: no memory, and nothing
 * was added. */
bool key_set_add(struct key_set *set, uint64_t key_hash, bool writes);

/* Removes one operation that key_set_add has added with the same arguments. */
void key_set_remove(struct key_set *set, uint64_t key_hash, bool writes);

/* Returns true if an operation on the key of that hash, which writes it or not, must wait for one
 * that is in the set. */
bool key_set_conflicts(const struct key_set *set, uint64_t key_hash, bool writes);

/* Frees the memory of the set, which is empty then. */
void key_set_free(struct key_set *set);

#endif
