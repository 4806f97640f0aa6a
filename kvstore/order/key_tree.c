#include "kvstore/order/key_tree.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "kvstore/order/node_pool.h"
#include "kvstore/shared/shared_order.h"

/* A node with fewer items than this share is merged with the one beside it, if both fill no more
 * than three quarters of one. */
#define SPARSE_SHARE 4u

/* Keys of a leaf that are looked at together for a point between them. */
#define PIVOTS 7u

struct key_tree {
    struct node_pool pool;
    struct order_view view;
    struct shared_order *words;
    uint32_t root;   /* reference */
    uint32_t levels; /* of inner nodes above the leaves */
    bool is_shown;   /* to readers without the lock */
    uint64_t keys;
    uint64_t leaves;
};

static struct order_leaf *leaf_at(const struct key_tree *tree, uint32_t reference)
{
    return node_pool_at(&tree->pool, reference);
}

static struct order_inner *inner_at(const struct key_tree *tree, uint32_t reference)
{
    return node_pool_at(&tree->pool, reference);
}

/* Stand around each change of what readers without the lock may look at. */
static void begin_tree_change(const struct key_tree *tree)
{
    uint64_t *changes = &tree->words->changes;
    KV_ASSERT(*changes % 2 == 0);
    __atomic_store_n(changes, *changes + 1, __ATOMIC_RELAXED);
    order_fence_writes();
}

static void end_tree_change(const struct key_tree *tree)
{
    uint64_t *changes = &tree->words->changes;
    uint64_t root = tree->is_shown ? order_root(tree->root, tree->levels) : 0;
    KV_ASSERT(*changes % 2 == 1);
    __atomic_store_n(&tree->words->root, root, __ATOMIC_RELAXED);
    __atomic_store_n(changes, *changes + 1, __ATOMIC_RELEASE);
    order_fence_writes(); /* what is written later into a piece that was given back */
}

static uint32_t make_leaf(struct key_tree *tree)
{
    uint32_t reference = node_pool_take(&tree->pool, sizeof(struct order_leaf));
    if (reference != 0)
        leaf_at(tree, reference)->count = 0;
    return reference;
}

static void give_leaf(struct key_tree *tree, uint32_t reference)
{
    node_pool_give(&tree->pool, reference, sizeof(struct order_leaf));
}

static void give_inner(struct key_tree *tree, uint32_t reference)
{
    node_pool_give(&tree->pool, reference, sizeof(struct order_inner));
}

static void give_separator(struct key_tree *tree, struct order_separator separator)
{
    node_pool_give(&tree->pool, separator.reference, separator.size);
}

struct key_tree *key_tree_create(struct arena *arena, struct shared_order *words)
{
    struct key_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return NULL;
    node_pool_init(&tree->pool, arena);
    tree->view = (struct order_view){tree->pool.base, UINT64_MAX};
    tree->words = words;
    tree->root = make_leaf(tree);
    tree->leaves = 1;
    if (tree->root != 0)
        return tree;
    node_pool_end(&tree->pool);
    free(tree);
    return NULL;
}

static void give_below(struct key_tree *tree, uint32_t node, uint32_t levels)
{
    if (levels == 0) {
        give_leaf(tree, node);
        return;
    }
    struct order_inner *inner = inner_at(tree, node);
    for (uint32_t i = 0; i < inner->count; i++) {
        give_below(tree, inner->children[i], levels - 1);
        if (i + 1 < inner->count)
            give_separator(tree, inner->separators[i]);
    }
    give_inner(tree, node);
}

/* Leaves one leaf, without a key. */
static void make_empty(struct key_tree *tree)
{
    uint32_t node = tree->root;
    for (uint32_t level = tree->levels; level > 0; level--) {
        struct order_inner *inner = inner_at(tree, node);
        uint32_t first = inner->children[0];
        for (uint32_t i = 1; i < inner->count; i++) {
            give_below(tree, inner->children[i], level - 1);
            give_separator(tree, inner->separators[i - 1]);
        }
        give_inner(tree, node);
        node = first;
    }
    leaf_at(tree, node)->count = 0;
    tree->root = node;
    tree->levels = 0;
    tree->keys = 0;
    tree->leaves = 1;
}

void key_tree_free(struct key_tree *tree)
{
    if (!tree)
        return;
    key_tree_clear(tree);
    give_leaf(tree, tree->root);
    node_pool_end(&tree->pool);
    free(tree);
}

void key_tree_clear(struct key_tree *tree)
{
    begin_tree_change(tree);
    tree->is_shown = false;
    make_empty(tree);
    end_tree_change(tree);
}

void key_tree_show(struct key_tree *tree)
{
    begin_tree_change(tree);
    tree->is_shown = true;
    end_tree_change(tree);
}

/* Finding -------------------------------------------------------------------------------------- */

static void descend(const struct key_tree *tree, struct key_point point, struct order_path *path)
{
    bool found = order_walk(&tree->view, order_root(tree->root, tree->levels), point, path);
    KV_ASSERT(found);
    (void)found;
}

static struct key_leaf leaf_of(const struct key_tree *tree, const struct order_path *path)
{
    const struct order_leaf *leaf = leaf_at(tree, path->leaf);
    return (struct key_leaf){leaf->hashes, leaf->count, path->bounds};
}

void key_tree_find(const struct key_tree *tree, struct key_point point, struct key_leaf *leaf)
{
    struct order_path path;
    descend(tree, point, &path);
    *leaf = leaf_of(tree, &path);
}

bool key_tree_next(const struct key_tree *tree, struct key_leaf *leaf)
{
    if (leaf->bounds.is_last)
        return false;
    key_tree_find(tree, key_point(leaf->bounds.high, KEY_BEHIND), leaf);
    return true;
}

bool key_tree_previous(const struct key_tree *tree, struct key_leaf *leaf)
{
    if (leaf->bounds.low.size == 0)
        return false;
    key_tree_find(tree, key_point(leaf->bounds.low, KEY_BEFORE), leaf);
    return true;
}

static uint32_t count_hash(const struct key_leaf *leaf, uint32_t hash)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < leaf->count; i++)
        count += leaf->hashes[i] == hash;
    return count;
}

static uint32_t rank_of_hash(const struct key_leaf *leaf, uint32_t at)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < at; i++)
        rank += leaf->hashes[i] == leaf->hashes[at];
    return rank;
}

static bool leaf_key(const struct key_leaf *leaf, const struct key_source *source,
                     enum read_buffer buffer, uint32_t at, struct kv_slice except,
                     struct kv_slice *key, uint64_t *offset)
{
    return key_source_find(source, buffer, leaf->hashes[at], &leaf->bounds, rank_of_hash(leaf, at),
                           except, key, offset);
}

bool key_leaf_key(const struct key_leaf *leaf, const struct key_source *source,
                  enum read_buffer buffer, uint32_t at, struct kv_slice *key, uint64_t *offset)
{
    return leaf_key(leaf, source, buffer, at, kv_slice(NULL, 0), key, offset);
}

/* A few keys at a time are asked for, so that the memory in which they lie is waited for once. */
static uint32_t leaf_rank(const struct key_leaf *leaf, const struct key_source *source,
                          struct key_point point, struct kv_slice except)
{
    uint32_t low = 0, high = leaf->count;
    while (low < high) {
        uint32_t from = low, step = (high - low) / (PIVOTS + 1) + 1;
        uint32_t first = 0, behind = (high - low) / step; /* of the pivots, those not compared */
        key_source_prefetch(source, &leaf->hashes[from + step - 1], high - (from + step - 1), step);
        while (first < behind) {
            uint32_t pivot = (first + behind) / 2;
            uint32_t middle = from + (pivot + 1) * step - 1, at = middle;
            struct kv_slice key;
            uint64_t offset;
            while (at < high && !leaf_key(leaf, source, READ_BUFFER_KEY, at, except, &key, &offset))
                at++;
            if (at < high && key_is_before(key, point)) {
                low = at + 1;
                first = (low - from) / step;
            } else {
                high = middle;
                behind = pivot;
            }
        }
    }
    return low;
}

uint32_t key_leaf_rank(const struct key_leaf *leaf, const struct key_source *source,
                       struct key_point point)
{
    return leaf_rank(leaf, source, point, kv_slice(NULL, 0));
}

/* Splitting ------------------------------------------------------------------------------------ */

/* What a split takes, so that it cannot fail half-way: references. */
struct split_parts {
    uint32_t leaf;
    uint32_t inner[ORDER_LEVELS_MAX + 1];
    uint32_t inner_count;
    struct order_separator separator;
};

static void give_split_parts(struct key_tree *tree, struct split_parts *parts)
{
    give_leaf(tree, parts->leaf);
    give_separator(tree, parts->separator);
    while (parts->inner_count > 0)
        give_inner(tree, parts->inner[--parts->inner_count]);
}

/* Makes the separator of two keys: the shortest beginning of `behind` that is behind `before`. */
static bool make_separator(struct key_tree *tree, struct kv_slice before, struct kv_slice behind,
                           struct order_separator *separator)
{
    const uint8_t *a = before.data, *b = behind.data;
    uint32_t same = 0;
    while (same < before.size && same < behind.size && a[same] == b[same])
        same++;
    if (same == behind.size) /* not in order: the bytes have changed */
        return false;
    uint32_t reference = node_pool_take(&tree->pool, same + 1);
    if (reference == 0)
        return false;
    memcpy(node_pool_at(&tree->pool, reference), b, same + 1);
    *separator = (struct order_separator){reference, same + 1};
    return true;
}

/* Makes the separator behind `stays` items of a leaf into which `key` is to be entered: before the
 * next item, or before `key` if there is none. */
static bool separate(struct key_tree *tree, const struct key_leaf *leaf,
                     const struct key_source *source, uint32_t stays, struct kv_slice key,
                     struct order_separator *separator)
{
    struct kv_slice before, behind = key;
    uint64_t offset;
    uint8_t *copy = NULL;
    if (!leaf_key(leaf, source, READ_BUFFER_KEY, stays - 1, key, &before, &offset))
        return false;
    if (!source->log->map) { /* the next key goes to the same buffer */
        copy = malloc(before.size);
        if (!copy)
            return false;
        memcpy(copy, before.data, before.size);
        before.data = copy;
    }
    bool done = (stays == leaf->count ||
                 leaf_key(leaf, source, READ_BUFFER_KEY, stays, key, &behind, &offset)) &&
                make_separator(tree, before, behind, separator);
    free(copy);
    return done;
}

static bool take_split_parts(struct key_tree *tree, const struct order_path *path,
                             struct split_parts *parts)
{
    uint32_t needed = 0;
    while (needed < tree->levels &&
           inner_at(tree, path->nodes[tree->levels - 1 - needed])->count == ORDER_CHILDREN)
        needed++;
    if (needed == tree->levels) /* a new root */
        needed++;
    if (needed > tree->levels && tree->levels == ORDER_LEVELS_MAX)
        return false;
    parts->leaf = make_leaf(tree);
    while (parts->leaf != 0 && parts->inner_count < needed) {
        uint32_t inner = node_pool_take(&tree->pool, sizeof(struct order_inner));
        if (inner == 0)
            return false;
        parts->inner[parts->inner_count++] = inner;
    }
    return parts->leaf != 0;
}

/* Puts `child` behind the child at `at`, with `separator` between them. There is room. */
static void insert_child(struct order_inner *inner, uint32_t at, uint32_t child,
                         struct order_separator separator)
{
    uint32_t behind = inner->count - 1 - at;
    KV_ASSERT(inner->count < ORDER_CHILDREN && at < inner->count);
    memmove(&inner->children[at + 2], &inner->children[at + 1], behind * sizeof child);
    memmove(&inner->separators[at + 1], &inner->separators[at], behind * sizeof separator);
    inner->children[at + 1] = child;
    inner->separators[at] = separator;
    inner->count++;
}

/* Moves the second half of a full inner node to `right`. *up is the separator between the two. */
static void split_inner(struct order_inner *inner, struct order_inner *right,
                        struct order_separator *up)
{
    uint32_t stays = ORDER_CHILDREN / 2;
    right->count = ORDER_CHILDREN - stays;
    memcpy(right->children, &inner->children[stays], right->count * sizeof right->children[0]);
    memcpy(right->separators, &inner->separators[stays], (right->count - 1) * sizeof *up);
    *up = inner->separators[stays - 1];
    inner->count = stays;
}

/* Enters a child behind the one that the path goes through, at the lowest level. */
static void insert_on_path(struct key_tree *tree, const struct order_path *path, uint32_t child,
                           struct split_parts *parts)
{
    struct order_separator separator = parts->separator;
    uint32_t level = tree->levels;
    while (level > 0 && inner_at(tree, path->nodes[level - 1])->count == ORDER_CHILDREN) {
        struct order_inner *inner = inner_at(tree, path->nodes[level - 1]);
        uint32_t beside = parts->inner[--parts->inner_count];
        struct order_inner *right = inner_at(tree, beside);
        struct order_separator up;
        uint32_t at = path->at[level - 1];
        split_inner(inner, right, &up);
        if (at < inner->count)
            insert_child(inner, at, child, separator);
        else
            insert_child(right, at - inner->count, child, separator);
        child = beside;
        separator = up;
        level--;
    }
    if (level > 0) {
        insert_child(inner_at(tree, path->nodes[level - 1]), path->at[level - 1], child, separator);
        return;
    }
    uint32_t above = parts->inner[--parts->inner_count];
    struct order_inner *root = inner_at(tree, above);
    root->count = 2;
    root->children[0] = tree->root;
    root->children[1] = child;
    root->separators[0] = separator;
    tree->root = above;
    tree->levels++;
}

/* Splits the path's leaf, which is full, so that `key` may be entered at `at`: in the middle, or,
 * if that is the end, where keys come in their order, behind all. Both then are on the right side
 * of the separator. False: nothing has changed. */
static bool split_leaf(struct key_tree *tree, const struct order_path *path,
                       const struct key_source *source, struct kv_slice key, uint32_t at)
{
    struct order_leaf *leaf = leaf_at(tree, path->leaf);
    struct key_leaf seen = leaf_of(tree, path);
    uint32_t stays = at == leaf->count ? at : leaf->count / 2;
    struct split_parts parts = {0};
    bool done = separate(tree, &seen, source, stays, key, &parts.separator) &&
                take_split_parts(tree, path, &parts);
    if (!done) {
        give_split_parts(tree, &parts);
        return false;
    }
    struct order_leaf *right = leaf_at(tree, parts.leaf);
    begin_tree_change(tree);
    right->count = leaf->count - stays;
    memcpy(right->hashes, &leaf->hashes[stays], right->count * sizeof leaf->hashes[0]);
    leaf->count = stays;
    tree->leaves++;
    insert_on_path(tree, path, parts.leaf, &parts);
    end_tree_change(tree);
    KV_ASSERT(parts.inner_count == 0);
    return true;
}

bool key_tree_insert(struct key_tree *tree, const struct key_source *source, uint32_t hash,
                     struct kv_slice key)
{
    struct order_path path;
    descend(tree, key_point(key, KEY_BEHIND), &path);
    struct key_leaf leaf = leaf_of(tree, &path);
    uint32_t there = count_hash(&leaf, hash);
    if (there > 0 && there > key_source_others(source, hash, &leaf.bounds, key).count)
        return true;
    uint32_t at = leaf_rank(&leaf, source, key_point(key, KEY_BEFORE), key);
    if (leaf.count == ORDER_LEAF_ITEMS) {
        if (!split_leaf(tree, &path, source, key, at))
            return false;
        descend(tree, key_point(key, KEY_BEHIND), &path);
        leaf = leaf_of(tree, &path);
        at = leaf_rank(&leaf, source, key_point(key, KEY_BEFORE), key);
    }
    struct order_leaf *into = leaf_at(tree, path.leaf);
    begin_tree_change(tree);
    memmove(&into->hashes[at + 1], &into->hashes[at], (into->count - at) * sizeof into->hashes[0]);
    into->hashes[at] = hash;
    into->count++;
    end_tree_change(tree);
    tree->keys++;
    return true;
}

/* Removing ------------------------------------------------------------------------------------- */

/* Takes the child at `at` out of `inner`, and the separator before it, or behind the first. */
static void remove_child(struct key_tree *tree, struct order_inner *inner, uint32_t at)
{
    if (inner->count > 1) {
        uint32_t gone = at > 0 ? at - 1 : 0;
        give_separator(tree, inner->separators[gone]);
        memmove(&inner->separators[gone], &inner->separators[gone + 1],
                (inner->count - 2 - gone) * sizeof inner->separators[0]);
    }
    memmove(&inner->children[at], &inner->children[at + 1],
            (inner->count - 1 - at) * sizeof inner->children[0]);
    inner->count--;
}

static bool may_merge(uint32_t left, uint32_t right, uint32_t most)
{
    return (left < most / SPARSE_SHARE || right < most / SPARSE_SHARE) &&
           left + right <= most / 4 * 3;
}

/* Merges the children `at` and `at + 1` of the node above the leaves, if they may be. */
static void merge_leaves(struct key_tree *tree, struct order_inner *inner, uint32_t at)
{
    uint32_t beside = inner->children[at + 1];
    struct order_leaf *left = leaf_at(tree, inner->children[at]), *right = leaf_at(tree, beside);
    if (!may_merge(left->count, right->count, ORDER_LEAF_ITEMS))
        return;
    memcpy(&left->hashes[left->count], right->hashes, right->count * sizeof left->hashes[0]);
    left->count += right->count;
    remove_child(tree, inner, at + 1);
    give_leaf(tree, beside);
    tree->leaves--;
}

/* The same of two inner nodes; the separator between them comes down. */
static void merge_inner(struct key_tree *tree, struct order_inner *above, uint32_t at)
{
    uint32_t beside = above->children[at + 1];
    struct order_inner *left = inner_at(tree, above->children[at]);
    struct order_inner *right = inner_at(tree, beside);
    if (!may_merge(left->count, right->count, ORDER_CHILDREN))
        return;
    memcpy(&left->children[left->count], right->children, right->count * sizeof left->children[0]);
    memcpy(&left->separators[left->count], right->separators,
           (right->count - 1) * sizeof left->separators[0]);
    left->separators[left->count - 1] = above->separators[at];
    left->count += right->count;
    above->separators[at] = (struct order_separator){0, 0};
    remove_child(tree, above, at + 1);
    give_inner(tree, beside);
}

/* After something was taken out below the node of `level`: takes what is empty out of the path, and
 * merges what is sparse. */
static void tidy(struct key_tree *tree, const struct order_path *path)
{
    for (uint32_t level = tree->levels; level-- > 0;) {
        struct order_inner *inner = inner_at(tree, path->nodes[level]);
        uint32_t at = path->at[level], child = inner->children[at];
        bool above_leaves = level + 1 == tree->levels;
        uint32_t left = above_leaves ? leaf_at(tree, child)->count : inner_at(tree, child)->count;
        if (left == 0) {
            tree->leaves -= above_leaves;
            if (above_leaves)
                give_leaf(tree, child);
            else
                give_inner(tree, child);
            remove_child(tree, inner, at);
            continue;
        }
        for (uint32_t i = at > 0 ? at - 1 : 0; i <= at && i + 1 < inner->count; i++) {
            if (above_leaves)
                merge_leaves(tree, inner, i);
            else
                merge_inner(tree, inner, i);
        }
    }
    while (tree->levels > 0 && inner_at(tree, tree->root)->count == 1) {
        uint32_t root = tree->root;
        tree->root = inner_at(tree, root)->children[0];
        tree->levels--;
        give_inner(tree, root);
    }
}

bool key_tree_remove(struct key_tree *tree, const struct key_source *source, uint32_t hash,
                     struct kv_slice key)
{
    struct order_path path;
    descend(tree, key_point(key, KEY_BEHIND), &path);
    struct order_leaf *leaf = leaf_at(tree, path.leaf);
    struct key_others others = key_source_others(source, hash, &path.bounds, key);
    uint32_t there = 0, at = leaf->count;
    for (uint32_t i = 0; i < leaf->count; i++)
        if (leaf->hashes[i] == hash && there++ == others.before)
            at = i;
    if (there <= others.count || at == leaf->count)
        return false;
    begin_tree_change(tree);
    memmove(&leaf->hashes[at], &leaf->hashes[at + 1],
            (leaf->count - 1 - at) * sizeof leaf->hashes[0]);
    leaf->count--;
    tree->keys--;
    if (tree->keys == 0)
        make_empty(tree);
    else if (leaf->count < ORDER_LEAF_ITEMS / SPARSE_SHARE)
        tidy(tree, &path);
    end_tree_change(tree);
    return true;
}

struct key_tree_size key_tree_size(const struct key_tree *tree)
{
    return (struct key_tree_size){tree->keys, tree->pool.bytes, tree->leaves, tree->levels + 1};
}
