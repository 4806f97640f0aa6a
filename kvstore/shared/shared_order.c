#include "kvstore/shared/shared_order.h"

/* Of a separator, which is not longer than a key. */
#define SEPARATOR_MAX_BYTES 65535u

const void *order_at(const struct order_view *view, uint32_t reference, uint64_t bytes)
{
    uint64_t offset = (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT;
    bool usable =
        reference != 0 && offset <= view->usable_bytes && bytes <= view->usable_bytes - offset;
    return usable ? view->base + offset : NULL;
}

/* False: it cannot be touched. */
static bool load_separator(const struct order_view *view, const struct order_inner *inner,
                           uint32_t at, struct kv_slice *slice)
{
    const struct order_separator *separator = &inner->separators[at];
    uint32_t reference = __atomic_load_n(&separator->reference, __ATOMIC_RELAXED);
    uint32_t size = __atomic_load_n(&separator->size, __ATOMIC_RELAXED);
    const void *bytes = size <= SEPARATOR_MAX_BYTES ? order_at(view, reference, size) : NULL;
    *slice = kv_slice(bytes, bytes ? size : 0);
    return bytes != NULL;
}

/* The child in which the point is: behind all separators that are before it. */
static bool find_child(const struct order_view *view, const struct order_inner *inner,
                       uint32_t count, struct key_point point, uint32_t *child)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        struct kv_slice separator;
        if (!load_separator(view, inner, middle, &separator))
            return false;
        if (key_is_before(separator, point))
            low = middle + 1;
        else
            high = middle;
    }
    *child = low;
    return true;
}

bool order_walk(const struct order_view *view, uint64_t root, struct key_point point,
                struct order_path *path)
{
    uint64_t reference = root >> 8;
    path->levels = (uint32_t)(root & 0xff);
    path->bounds = (struct key_bounds){.is_last = true};
    if (path->levels > ORDER_LEVELS_MAX || reference > UINT32_MAX)
        return false;
    for (uint32_t level = 0; level < path->levels; level++) {
        const struct order_inner *inner = order_at(view, (uint32_t)reference, sizeof *inner);
        uint32_t count = inner ? __atomic_load_n(&inner->count, __ATOMIC_RELAXED) : 0;
        uint32_t at;
        if (count == 0 || count > ORDER_CHILDREN || !find_child(view, inner, count, point, &at))
            return false;
        path->nodes[level] = (uint32_t)reference;
        path->at[level] = at;
        if (at > 0 && !load_separator(view, inner, at - 1, &path->bounds.low))
            return false;
        if (at + 1 < count) {
            if (!load_separator(view, inner, at, &path->bounds.high))
                return false;
            path->bounds.is_last = false;
        }
        reference = __atomic_load_n(&inner->children[at], __ATOMIC_RELAXED);
    }
    path->leaf = (uint32_t)reference;
    return order_at(view, path->leaf, sizeof(struct order_leaf)) != NULL;
}
