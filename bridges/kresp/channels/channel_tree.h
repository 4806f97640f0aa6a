/*
 * channel_tree: trees of tsearch(3) of structs whose first field is their name, a struct kv_slice.
 */
#ifndef MQKV_KRESP_CHANNELS_CHANNEL_TREE_H
#define MQKV_KRESP_CHANNELS_CHANNEL_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/slice.h"

/* Returns the element of this name; NULL: there is none. */
void *channel_tree_find(void *const *tree, struct kv_slice name);

/* Adds an element whose name is not in the tree; false: no memory. */
bool channel_tree_add(void **tree, void *element);

/* Adds a new element of so many bytes, zero but for its name, of which a copy stands behind them:
 * no element of the name is in the tree. Returns it; NULL: no memory. Once it is removed, the
 * caller frees it. */
void *channel_tree_make(void **tree, size_t element_bytes, struct kv_slice name);

/* Removes an element that is in the tree. */
void channel_tree_remove(void **tree, const void *element);

#endif
