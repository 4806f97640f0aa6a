#include "bridges/kresp/channels/channel_tree.h"

#include <search.h>
#include <string.h>

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

void channel_tree_remove(void **tree, const void *element)
{
    tdelete(element, tree, compare_names);
}
