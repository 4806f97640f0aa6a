/*
 * shared_order: the layout of the orders of an ordered store's keys in shared memory
 * (shared_store.h): for each data file a B+ tree (kvstore/order/key_tree.h), and the way from its
 * root to a leaf. The engine changes trees; readers in other processes that have mapped them only
 * look. Both use the code below.
 *
 * A *leaf* has the 32 bits of each key's hash by which the index knows the key, in the order of the
 * keys. An *inner node* has children and, between two of them, a *separator*: bytes that no key of
 * the left one reaches and that are not behind any key of the right one. Nodes and separators lie
 * at references, as all of the object does.
 *
 * How to read a leaf without any lock:
 *
 *   0. transacting = load(store->transacting), of which the low 16 bits must be 0
 *   1. changes = load(order->changes), which must be even
 *   2. root = load(order->root): 0: the order cannot be read; else walk to the leaf
 *   3. copy the leaf, and the separators around it
 *   4. if load(order->changes) != changes or load(store->transacting) != transacting: discard the
 *      copy and begin again
 *
 * A tree is of use only while order->instance is that of the store: a daemon that knows of no
 * orders may serve the object of one that did. What a leaf has was so at one moment; the keys are
 * then found one by one, as keys are, by hash and between the separators. A key that is not found
 * any more has been deleted since. An overwrite changes no tree, nor does a compaction.
 *
 * Every reference, count and size must be checked before it is used: between 1 and 4 any bytes may
 * be there. order_walk does so, and ends after ORDER_LEVELS_MAX nodes.
 */
#ifndef MQKV_KVSTORE_SHARED_SHARED_ORDER_H
#define MQKV_KVSTORE_SHARED_SHARED_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/shared/key_point.h"
#include "kvstore/shared/shared_store.h"

#ifndef ORDER_LEAF_ITEMS
#define ORDER_LEAF_ITEMS 63u
#endif
#ifndef ORDER_CHILDREN
#define ORDER_CHILDREN 42u
#endif

/* Levels of inner nodes. Each but the root was split from a full one, or is about to go. */
#define ORDER_LEVELS_MAX 32u

struct order_leaf {
    uint32_t count;
    uint32_t hashes[ORDER_LEAF_ITEMS];
};

struct order_separator {
    uint32_t reference;
    uint32_t size;
};

/* Between children[i] and children[i + 1] is separators[i]: keys from it on are behind. */
struct order_inner {
    uint32_t count; /* of children, 1 or more */
    uint32_t children[ORDER_CHILDREN];
    struct order_separator separators[ORDER_CHILDREN - 1];
};

/* The object, as far as it may be touched. */
struct order_view {
    const uint8_t *base;
    uint64_t usable_bytes;
};

/* The way from the root to a leaf. */
struct order_path {
    uint32_t levels;
    uint32_t nodes[ORDER_LEVELS_MAX]; /* references */
    uint32_t at[ORDER_LEVELS_MAX];    /* the child that the way goes through */
    uint32_t leaf;                    /* reference */
    struct key_bounds bounds;         /* of the leaf; slices of the object */
};

static inline uint64_t order_root(uint32_t reference, uint32_t levels)
{
    return (uint64_t)reference << 8 | levels;
}

/* Keep what was read before the loads that follow, and the stores that follow behind those before.
 * (The thread sanitizer knows no fences, and sees another mapping than the one that is written
 * to.) */
static inline void order_fence_reads(void)
{
#if !defined(__SANITIZE_THREAD__) || defined(MQKV_EXPLORED)
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

static inline void order_fence_writes(void)
{
#if !defined(__SANITIZE_THREAD__) || defined(MQKV_EXPLORED)
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Returns the `bytes` bytes at the reference; NULL: they cannot be touched. */
const void *order_at(const struct order_view *view, uint32_t reference, uint64_t bytes);

/* Walks from `root` (struct shared_order) to the leaf in which the point is, or whose end it is.
 * Without the lock the result is a guess until `changes` was looked at again. False: there are
 * bytes on the way that cannot be touched, or make no sense. */
bool order_walk(const struct order_view *view, uint64_t root, struct key_point point,
                struct order_path *path);

#endif
