#include "kvstore/order/key_tree.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"

#ifndef KEY_TREE_CHILDREN
#define KEY_TREE_CHILDREN 32u
#endif

/* Levels of inner nodes. Each but the root was split from a full one, or is about to go. */
#define LEVELS_MAX 32u

/* A node with fewer items than this share is merged with the one beside it, if both fill no more
 * than three quarters of one. */
#define SPARSE_SHARE 4u

struct leaf_node {
    uint32_t count;
    uint32_t hashes[KEY_LEAF_ITEMS];
};

struct separator {
    uint8_t *bytes;
    uint32_t size;
};

/* Between children[i] and children[i + 1] is separators[i]: keys from it on are behind. */
struct inner_node {
    uint32_t count; /* of children, 1 or more */
    void *children[KEY_TREE_CHILDREN];
    struct separator separators[KEY_TREE_CHILDREN - 1];
};

struct key_tree {
    void *root;
    uint32_t levels; /* of inner nodes above the leaves */
    uint64_t keys;
    uint64_t leaves;
    uint64_t bytes;
};

/* The way from the root to a leaf. */
struct tree_path {
    struct inner_node *nodes[LEVELS_MAX];
    uint32_t at[LEVELS_MAX]; /* the child that the way goes through */
    struct leaf_node *leaf;
    struct key_bounds bounds; /* of the leaf */
};

static struct kv_slice separator_slice(const struct separator *separator)
{
    return kv_slice(separator->bytes, separator->size);
}

struct key_tree *key_tree_create(void)
{
    struct key_tree *tree = calloc(1, sizeof *tree);
    struct leaf_node *leaf = calloc(1, sizeof *leaf);
    if (!tree || !leaf) {
        free(tree);
        free(leaf);
        return NULL;
    }
    *tree = (struct key_tree){.root = leaf, .leaves = 1, .bytes = sizeof *leaf};
    return tree;
}

static void free_below(void *node, uint32_t levels)
{
    struct inner_node *inner = node;
    for (uint32_t i = 0; levels > 0 && i < inner->count; i++) {
        free_below(inner->children[i], levels - 1);
        if (i + 1 < inner->count)
            free(inner->separators[i].bytes);
    }
    free(node);
}

void key_tree_free(struct key_tree *tree)
{
    if (!tree)
        return;
    free_below(tree->root, tree->levels);
    free(tree);
}

void key_tree_clear(struct key_tree *tree)
{
    void *leaf = tree->root;
    for (uint32_t level = tree->levels; level > 0; level--) { /* one leaf stays, and is the root */
        struct inner_node *inner = leaf;
        leaf = inner->children[0];
        inner->children[0] = NULL;
        for (uint32_t i = 1; i < inner->count; i++) {
            free_below(inner->children[i], level - 1);
            free(inner->separators[i - 1].bytes);
        }
        free(inner);
    }
    ((struct leaf_node *)leaf)->count = 0;
    *tree = (struct key_tree){.root = leaf, .leaves = 1, .bytes = sizeof(struct leaf_node)};
}

/* Finding -------------------------------------------------------------------------------------- */

/* The child in which the point is: behind all separators that are before it. */
static uint32_t child_at(const struct inner_node *inner, struct key_point point)
{
    uint32_t low = 0, high = inner->count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (key_is_before(separator_slice(&inner->separators[middle]), point))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void descend(const struct key_tree *tree, struct key_point point, struct tree_path *path)
{
    void *node = tree->root;
    path->bounds = (struct key_bounds){.is_last = true};
    for (uint32_t level = 0; level < tree->levels; level++) {
        struct inner_node *inner = node;
        uint32_t at = child_at(inner, point);
        path->nodes[level] = inner;
        path->at[level] = at;
        if (at > 0)
            path->bounds.low = separator_slice(&inner->separators[at - 1]);
        if (at + 1 < inner->count) {
            path->bounds.high = separator_slice(&inner->separators[at]);
            path->bounds.is_last = false;
        }
        node = inner->children[at];
    }
    path->leaf = node;
}

static struct key_leaf leaf_of(const struct tree_path *path)
{
    return (struct key_leaf){path->leaf->hashes, path->leaf->count, path->bounds};
}

void key_tree_find(const struct key_tree *tree, struct key_point point, struct key_leaf *leaf)
{
    struct tree_path path;
    descend(tree, point, &path);
    *leaf = leaf_of(&path);
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

static uint32_t leaf_rank(const struct key_leaf *leaf, const struct key_source *source,
                          struct key_point point, struct kv_slice except)
{
    uint32_t low = 0, high = leaf->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2, at = middle;
        struct kv_slice key;
        uint64_t offset;
        while (at < high && !leaf_key(leaf, source, READ_BUFFER_KEY, at, except, &key, &offset))
            at++;
        if (at < high && key_is_before(key, point))
            low = at + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t key_leaf_rank(const struct key_leaf *leaf, const struct key_source *source,
                       struct key_point point)
{
    return leaf_rank(leaf, source, point, kv_slice(NULL, 0));
}

/* Splitting ------------------------------------------------------------------------------------ */

/* What a split takes, so that it cannot fail half-way. */
struct split_parts {
    struct leaf_node *leaf;
    struct inner_node *inner[LEVELS_MAX + 1];
    uint32_t inner_count;
    struct separator separator;
};

static void free_split_parts(struct split_parts *parts)
{
    free(parts->leaf);
    free(parts->separator.bytes);
    while (parts->inner_count > 0)
        free(parts->inner[--parts->inner_count]);
}

/* Makes the separator of two keys: the shortest beginning of `behind` that is behind `before`. */
static bool make_separator(struct kv_slice before, struct kv_slice behind,
                           struct separator *separator)
{
    const uint8_t *a = before.data, *b = behind.data;
    uint32_t same = 0;
    while (same < before.size && same < behind.size && a[same] == b[same])
        same++;
    if (same == behind.size) /* not in order: the bytes have changed */
        return false;
    separator->bytes = malloc(same + 1);
    if (!separator->bytes)
        return false;
    memcpy(separator->bytes, b, same + 1);
    separator->size = same + 1;
    return true;
}

/* Makes the separator behind `stays` items of a leaf into which `key` is to be entered: before the
 * next item, or before `key` if there is none. */
static bool separate(const struct key_leaf *leaf, const struct key_source *source, uint32_t stays,
                     struct kv_slice key, struct separator *separator)
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
                make_separator(before, behind, separator);
    free(copy);
    return done;
}

static bool allocate_split_parts(const struct key_tree *tree, const struct tree_path *path,
                                 struct split_parts *parts)
{
    uint32_t needed = 0;
    while (needed < tree->levels &&
           path->nodes[tree->levels - 1 - needed]->count == KEY_TREE_CHILDREN)
        needed++;
    if (needed == tree->levels) /* a new root */
        needed++;
    if (needed > tree->levels && tree->levels == LEVELS_MAX)
        return false;
    parts->leaf = malloc(sizeof *parts->leaf);
    while (parts->leaf && parts->inner_count < needed) {
        struct inner_node *inner = malloc(sizeof *inner);
        if (!inner)
            return false;
        parts->inner[parts->inner_count++] = inner;
    }
    return parts->leaf != NULL;
}

/* Puts `child` behind the child at `at`, with `separator` between them. There is room. */
static void insert_child(struct inner_node *inner, uint32_t at, void *child,
                         struct separator separator)
{
    uint32_t behind = inner->count - 1 - at;
    KV_ASSERT(inner->count < KEY_TREE_CHILDREN && at < inner->count);
    memmove(&inner->children[at + 2], &inner->children[at + 1], behind * sizeof(void *));
    memmove(&inner->separators[at + 1], &inner->separators[at], behind * sizeof separator);
    inner->children[at + 1] = child;
    inner->separators[at] = separator;
    inner->count++;
}

/* Moves the second half of a full inner node to `right`. *up is the separator between the two. */
static void split_inner(struct inner_node *inner, struct inner_node *right, struct separator *up)
{
    uint32_t stays = KEY_TREE_CHILDREN / 2;
    right->count = KEY_TREE_CHILDREN - stays;
    memcpy(right->children, &inner->children[stays], right->count * sizeof(void *));
    memcpy(right->separators, &inner->separators[stays], (right->count - 1) * sizeof *up);
    *up = inner->separators[stays - 1];
    inner->count = stays;
}

/* Enters a child behind the one that the path goes through, at the lowest level. */
static void insert_on_path(struct key_tree *tree, struct tree_path *path, void *child,
                           struct split_parts *parts)
{
    struct separator separator = parts->separator;
    uint32_t level = tree->levels;
    while (level > 0 && path->nodes[level - 1]->count == KEY_TREE_CHILDREN) {
        struct inner_node *inner = path->nodes[level - 1];
        struct inner_node *right = parts->inner[--parts->inner_count];
        struct separator up;
        uint32_t at = path->at[level - 1];
        split_inner(inner, right, &up);
        if (at < inner->count)
            insert_child(inner, at, child, separator);
        else
            insert_child(right, at - inner->count, child, separator);
        tree->bytes += sizeof *right;
        child = right;
        separator = up;
        level--;
    }
    if (level > 0) {
        insert_child(path->nodes[level - 1], path->at[level - 1], child, separator);
        return;
    }
    struct inner_node *root = parts->inner[--parts->inner_count];
    root->count = 2;
    root->children[0] = tree->root;
    root->children[1] = child;
    root->separators[0] = separator;
    tree->root = root;
    tree->levels++;
    tree->bytes += sizeof *root;
}

/* Splits the path's leaf, which is full, so that `key` may be entered at `at`: in the middle, or,
 * if that is the end, where keys come in their order, behind all. Both then are on the right side
 * of the separator. False: nothing has changed. */
static bool split_leaf(struct key_tree *tree, struct tree_path *path,
                       const struct key_source *source, struct kv_slice key, uint32_t at)
{
    struct leaf_node *leaf = path->leaf;
    struct key_leaf seen = leaf_of(path);
    uint32_t stays = at == leaf->count ? at : leaf->count / 2;
    struct split_parts parts = {0};
    bool done = separate(&seen, source, stays, key, &parts.separator) &&
                allocate_split_parts(tree, path, &parts);
    if (!done) {
        free_split_parts(&parts);
        return false;
    }
    parts.leaf->count = leaf->count - stays;
    memcpy(parts.leaf->hashes, &leaf->hashes[stays], parts.leaf->count * sizeof leaf->hashes[0]);
    leaf->count = stays;
    tree->leaves++;
    tree->bytes += sizeof *leaf + parts.separator.size;
    insert_on_path(tree, path, parts.leaf, &parts);
    KV_ASSERT(parts.inner_count == 0);
    return true;
}

bool key_tree_insert(struct key_tree *tree, const struct key_source *source, uint32_t hash,
                     struct kv_slice key)
{
    struct tree_path path;
    descend(tree, key_point(key, KEY_BEHIND), &path);
    struct key_leaf leaf = leaf_of(&path);
    uint32_t there = count_hash(&leaf, hash);
    if (there > 0 && there > key_source_others(source, hash, &leaf.bounds, key).count)
        return true;
    uint32_t at = leaf_rank(&leaf, source, key_point(key, KEY_BEFORE), key);
    if (leaf.count == KEY_LEAF_ITEMS) {
        if (!split_leaf(tree, &path, source, key, at))
            return false;
        descend(tree, key_point(key, KEY_BEHIND), &path);
        leaf = leaf_of(&path);
        at = leaf_rank(&leaf, source, key_point(key, KEY_BEFORE), key);
    }
    struct leaf_node *into = path.leaf;
    memmove(&into->hashes[at + 1], &into->hashes[at], (into->count - at) * sizeof into->hashes[0]);
    into->hashes[at] = hash;
    into->count++;
    tree->keys++;
    return true;
}

/* Removing ------------------------------------------------------------------------------------- */

/* Takes the child at `at` out of `inner`, and the separator before it, or behind the first. */
static void remove_child(struct key_tree *tree, struct inner_node *inner, uint32_t at)
{
    if (inner->count > 1) {
        uint32_t gone = at > 0 ? at - 1 : 0;
        tree->bytes -= inner->separators[gone].size;
        free(inner->separators[gone].bytes);
        memmove(&inner->separators[gone], &inner->separators[gone + 1],
                (inner->count - 2 - gone) * sizeof inner->separators[0]);
    }
    memmove(&inner->children[at], &inner->children[at + 1],
            (inner->count - 1 - at) * sizeof(void *));
    inner->count--;
}

static bool may_merge(uint32_t left, uint32_t right, uint32_t most)
{
    return (left < most / SPARSE_SHARE || right < most / SPARSE_SHARE) &&
           left + right <= most / 4 * 3;
}

/* Merges the children `at` and `at + 1` of the node above the leaves, if they may be. */
static void merge_leaves(struct key_tree *tree, struct inner_node *inner, uint32_t at)
{
    struct leaf_node *left = inner->children[at], *right = inner->children[at + 1];
    if (!may_merge(left->count, right->count, KEY_LEAF_ITEMS))
        return;
    memcpy(&left->hashes[left->count], right->hashes, right->count * sizeof left->hashes[0]);
    left->count += right->count;
    remove_child(tree, inner, at + 1);
    free(right);
    tree->leaves--;
    tree->bytes -= sizeof *right;
}

/* The same of two inner nodes; the separator between them comes down. */
static void merge_inner(struct key_tree *tree, struct inner_node *above, uint32_t at)
{
    struct inner_node *left = above->children[at], *right = above->children[at + 1];
    if (!may_merge(left->count, right->count, KEY_TREE_CHILDREN))
        return;
    memcpy(&left->children[left->count], right->children, right->count * sizeof(void *));
    memcpy(&left->separators[left->count], right->separators,
           (right->count - 1) * sizeof left->separators[0]);
    left->separators[left->count - 1] = above->separators[at];
    left->count += right->count;
    above->separators[at] = (struct separator){NULL, 0};
    remove_child(tree, above, at + 1);
    free(right);
    tree->bytes -= sizeof *right;
}

/* After something was taken out below the node of `level`: takes what is empty out of the path, and
 * merges what is sparse. */
static void tidy(struct key_tree *tree, struct tree_path *path)
{
    for (uint32_t level = tree->levels; level-- > 0;) {
        struct inner_node *inner = path->nodes[level];
        uint32_t at = path->at[level];
        bool above_leaves = level + 1 == tree->levels;
        uint32_t left = above_leaves ? ((struct leaf_node *)inner->children[at])->count
                                     : ((struct inner_node *)inner->children[at])->count;
        if (left == 0) {
            free(inner->children[at]);
            tree->leaves -= above_leaves;
            tree->bytes -= above_leaves ? sizeof(struct leaf_node) : sizeof(struct inner_node);
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
    while (tree->levels > 0 && ((struct inner_node *)tree->root)->count == 1) {
        struct inner_node *root = tree->root;
        tree->root = root->children[0];
        tree->levels--;
        tree->bytes -= sizeof *root;
        free(root);
    }
}

bool key_tree_remove(struct key_tree *tree, const struct key_source *source, uint32_t hash,
                     struct kv_slice key)
{
    struct tree_path path;
    descend(tree, key_point(key, KEY_BEHIND), &path);
    struct leaf_node *leaf = path.leaf;
    struct key_others others = key_source_others(source, hash, &path.bounds, key);
    uint32_t there = 0, at = leaf->count;
    for (uint32_t i = 0; i < leaf->count; i++)
        if (leaf->hashes[i] == hash && there++ == others.before)
            at = i;
    if (there <= others.count || at == leaf->count)
        return false;
    if (leaf->count == 1 && tree->keys == 1) {
        key_tree_clear(tree);
        return true;
    }
    memmove(&leaf->hashes[at], &leaf->hashes[at + 1],
            (leaf->count - 1 - at) * sizeof leaf->hashes[0]);
    leaf->count--;
    tree->keys--;
    if (leaf->count < KEY_LEAF_ITEMS / SPARSE_SHARE)
        tidy(tree, &path);
    return true;
}

struct key_tree_size key_tree_size(const struct key_tree *tree)
{
    return (struct key_tree_size){tree->keys, tree->bytes, tree->leaves, tree->levels + 1};
}
