/*
 * key_point: keys in the order of their bytes, a prefix before what it begins; and points between
 * keys, from which and up to which somebody walks. Threads: any.
 */
#ifndef MQKV_KVSTORE_SHARED_KEY_POINT_H
#define MQKV_KVSTORE_SHARED_KEY_POINT_H

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

/* A part of the keys: from `low` on, before `high`; without an end where `is_last`. An empty `low`
 * leaves nothing out. */
struct key_bounds {
    struct kv_slice low;
    struct kv_slice high;
    bool is_last;
};

static inline bool key_is_within(struct kv_slice key, const struct key_bounds *bounds)
{
    return key_compare(key, bounds->low) >= 0 &&
           (bounds->is_last || key_compare(key, bounds->high) < 0);
}

/* Returns true if a is before b; also, perhaps, if no key is between them. */
static inline bool key_point_is_before(struct key_point a, struct key_point b)
{
    int order = key_compare(a.key, b.key);
    if (b.side == KEY_BEHIND_PREFIX && kv_slice_has_prefix(a.key, b.key))
        return a.side != KEY_BEHIND_PREFIX || order != 0;
    if (a.side == KEY_BEHIND_PREFIX && kv_slice_has_prefix(b.key, a.key))
        return false;
    return order != 0 ? order < 0 : a.side < b.side;
}

/* Where the keys of a range that begin with `prefix` begin, and where they end. An empty `from` or
 * `to`: the range has no such end; for `to` this is behind the empty prefix. */
static inline struct key_point key_range_begin(struct kv_slice from, bool behind_from,
                                               struct kv_slice prefix)
{
    struct key_point begin = key_point(from, behind_from ? KEY_BEHIND : KEY_BEFORE);
    struct key_point of_prefix = key_point(prefix, KEY_BEFORE);
    return key_point_is_before(begin, of_prefix) ? of_prefix : begin;
}

static inline struct key_point key_range_end(struct kv_slice to, struct kv_slice prefix)
{
    struct key_point of_prefix = key_point(prefix, KEY_BEHIND_PREFIX);
    struct key_point end = to.size > 0 ? key_point(to, KEY_BEFORE) : of_prefix;
    return key_point_is_before(of_prefix, end) ? of_prefix : end;
}

#endif
