/*
 * key_point: keys in the order of their bytes, a prefix before what it begins; and points between
 * keys, from which and up to which somebody walks. Threads: any.
 */
#ifndef MQKV_KVSTORE_ORDER_KEY_POINT_H
#define MQKV_KVSTORE_ORDER_KEY_POINT_H

#include <stdbool.h>
#include <string.h>

#include "mqkv/slice.h"

enum key_side {
    KEY_BEFORE,       /* before the key itself */
    KEY_BEHIND,       /* behind it, and before all others that it begins */
    KEY_BEHIND_PREFIX /* behind all keys that it begins */
};

struct key_point {
    struct kv_slice key;
    enum key_side side;
};

static inline struct key_point key_point(struct kv_slice key, enum key_side side)
{
    return (struct key_point){key, side};
}

/* Below 0, 0, above 0: a is before, the same as, behind b. */
static inline int key_compare(struct kv_slice a, struct kv_slice b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter > 0 ? memcmp(a.data, b.data, shorter) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Returns true if `key` is before the point. */
static inline bool key_is_before(struct kv_slice key, struct key_point point)
{
    int order = key_compare(key, point.key);
    if (order == 0)
        return point.side != KEY_BEFORE;
    return order < 0 || (point.side == KEY_BEHIND_PREFIX && kv_slice_has_prefix(key, point.key));
}

#endif
