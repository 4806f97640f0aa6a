/*
 * key_tree: the keys of one data file in their order, as a B+ tree. A leaf has the 32 bits of each
 * key's hash by which the index knows it, in the order of the keys, and nothing else: keys are
 * looked up through the index and compared in the log (key_source.h). So an overwrite, which moves
 * the record, does not touch the tree; only a new key and a removal do. Inner nodes have
 * separators, the shortest beginnings of keys that tell two leaves apart, and need no log. The tree
 * lies in the arena of the indexes, where readers in other processes walk it (shared_order.h).
 *
 * Two keys of one hash are told apart by their rank: of the keys with the hash between the two
 * separators around the leaf, the first in order is the first in the leaf.
 *
 * Threads: none of its own; callers hold the data file's lock, for reading to walk, for writing to
 * change the tree. What a walk gives is valid until the lock is released.
 */
#ifndef MQKV_KVSTORE_ORDER_KEY_TREE_H
#define MQKV_KVSTORE_ORDER_KEY_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/order/key_source.h"
#include "kvstore/shared/shared_order.h"

struct key_tree;

/* Makes a tree in `arena`, which readers without the lock find by *words: these have seen no tree,
 * or one that was freed. Both outlive the tree. NULL: out of memory. */
struct key_tree *key_tree_create(struct arena *arena, struct shared_order *words);

/* NULL is harmless. */
void key_tree_free(struct key_tree *tree);

/* Takes all keys out, and hides the tree from readers without the lock, as it is at first. */
void key_tree_clear(struct key_tree *tree);

/* Lets readers without the lock see the tree, which has all keys. */
void key_tree_show(struct key_tree *tree);

/* Enters `key`, which has `hash`; if the tree has it already, nothing changes. The index may have
 * it or not. False: out of memory, or keys around it cannot be read; nothing has changed. */
bool key_tree_insert(struct key_tree *tree, const struct key_source *source, uint32_t hash,
                     struct kv_slice key);

/* Takes `key` out, which the index has no more. Returns false if the tree did not have it. */
bool key_tree_remove(struct key_tree *tree, const struct key_source *source, uint32_t hash,
                     struct kv_slice key);

/* A leaf, as a walk sees it. */
struct key_leaf {
    const uint32_t *hashes;
    uint32_t count;
    struct key_bounds bounds;
};

/* Finds the leaf in which the point is, or whose end it is. */
void key_tree_find(const struct key_tree *tree, struct key_point point, struct key_leaf *leaf);

/* Goes to the leaf behind, or before. False: there is none. */
bool key_tree_next(const struct key_tree *tree, struct key_leaf *leaf);
bool key_tree_previous(const struct key_tree *tree, struct key_leaf *leaf);

/* How many of the leaf's keys are before the point. Keys that cannot be read may count or not. */
uint32_t key_leaf_rank(const struct key_leaf *leaf, const struct key_source *source,
                       struct key_point point);

/* The key at `at` of the leaf, and the offset of its record; as key_source_find. */
bool key_leaf_key(const struct key_leaf *leaf, const struct key_source *source,
                  enum read_buffer buffer, uint32_t at, struct kv_slice *key, uint64_t *offset);

struct key_tree_size {
    uint64_t keys;
    uint64_t bytes;
    uint64_t leaves;
    uint32_t depth; /* levels, the leaves' among them */
};
struct key_tree_size key_tree_size(const struct key_tree *tree);

/* How many keys a leaf has room for. */
#define KEY_LEAF_ITEMS ORDER_LEAF_ITEMS

#endif
