/*
 * ordering: the keys of one data file in their order (key_tree.h), where the store is ordered. It
 * is filled from the index, a few keys at a time and in the order of their hashes, while others
 * write: a change of a key whose hash the filling has passed is made in the tree as well, the
 * others the filling meets. What cannot be followed (there is no memory, or a damaged record is
 * where a leaf has to be split) empties the tree, to be filled anew.
 *
 * Threads: none of its own; the data file's lock covers it, except ordering_filled.
 */
#ifndef MQKV_KVSTORE_TABLE_ORDERING_H
#define MQKV_KVSTORE_TABLE_ORDERING_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/order/key_tree.h"
#include "kvstore/table/generation.h"

struct ordering {
    struct key_tree *tree;
    _Atomic uint64_t filled_to; /* hashes below are in the tree; INDEX_HASH_END: all */
};

/* Makes an ordering without a key; see key_tree_create. NULL: out of memory. */
struct ordering *ordering_create(struct arena *arena, struct shared_order *words);

/* NULL is harmless. */
void ordering_free(struct ordering *ordering);

/* Where the keys are: `generation` is the one in use of the ordering's file. */
static inline struct key_source ordering_source(const struct generation *generation)
{
    return (struct key_source){generation->index, &generation->log};
}

/* Whether all keys of the file are in the tree. Any thread. */
static inline bool ordering_is_whole(const struct ordering *ordering)
{
    return atomic_load(&ordering->filled_to) == INDEX_HASH_END;
}

/* After the index of `generation` has a new key, or one less, of `hash`. Holds: the file's lock for
 * writing. */
void ordering_add(struct ordering *ordering, const struct generation *generation, uint32_t hash,
                  struct kv_slice key);
void ordering_remove(struct ordering *ordering, const struct generation *generation, uint32_t hash,
                     struct kv_slice key);

/* Goes on with the filling by a few dozen keys. KV_OK; KV_NO_MEMORY: the tree is empty again.
 * Holds: the file's lock for writing. */
enum kv_status ordering_fill(struct ordering *ordering, const struct generation *generation);

#endif
