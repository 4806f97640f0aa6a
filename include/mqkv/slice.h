/*
 * slice: a borrowed run of bytes: keys and values are byte strings, never text.
 */
#ifndef MQKV_SLICE_H
#define MQKV_SLICE_H

#include <stddef.h>
#include <stdbool.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Borrowed: whoever made the slice says how long its bytes live. data may be NULL if size is 0. */
struct kv_slice {
    const void *data;
    size_t size;
};

static inline struct kv_slice kv_slice(const void *data, size_t size)
{
    struct kv_slice slice = {data, size};
    return slice;
}

static inline struct kv_slice kv_slice_from_string(const char *text)
{
    return kv_slice(text, strlen(text));
}

static inline bool kv_slice_equal(struct kv_slice a, struct kv_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool kv_slice_has_prefix(struct kv_slice slice, struct kv_slice prefix)
{
    return slice.size >= prefix.size &&
           (prefix.size == 0 || memcmp(slice.data, prefix.data, prefix.size) == 0);
}

#ifdef __cplusplus
}
#endif
#endif
