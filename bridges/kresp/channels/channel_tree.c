#include "bridges/kresp/channels/channel_tree.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"

/* Shorter names come first, so that long ones are seldom read. */
static int compare_names(const void *left, const void *right)
{
    const struct kv_slice *a = left, *b = right;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return a->size > 0 ? memcmp(a->data, b->data, a->size) : 0;
}

void *channel_tree_find(void *const *tree, struct kv_slice name)
{
    void *const *found = tfind(&name, tree, compare_names);
    return found ? *found : NULL;
}

bool channel_tree_add(void **tree, void *element)
{
    return tsearch(element, tree, compare_names) != NULL;
}

void *channel_tree_make(void **tree, size_t element_bytes, struct kv_slice name)
{
    KV_ASSERT(element_bytes >= sizeof name);
    struct kv_slice *element = calloc(1, element_bytes + name.size);
    if (!element)
        return NULL;
    char *copy = (char *)element + element_bytes;
    if (name.size > 0)
        memcpy(copy, name.data, name.size);
    *element = kv_slice(copy, name.size);
    if (channel_tree_add(tree, element))
        return element;
    free(element);
    return NULL;
}

void channel_tree_remove(void **tree, const void *element)
{
    tdelete(element, tree, compare_names);
}
