#include "bridges/cluster/natskv/nats_shard.h"

#include <string.h>
#include <xxhash.h>

/* Returns the tag of the key, or the key if it has none. */
static struct kv_slice tag_or_key(struct kv_slice key)
{
    const char *open = key.size > 0 ? memchr(key.data, '{', key.size) : NULL;
    if (!open)
        return key;
    size_t left = key.size - (size_t)(open + 1 - (const char *)key.data);
    const char *close = left > 0 ? memchr(open + 1, '}', left) : NULL;
    return close && close > open + 1 ? kv_slice(open + 1, (size_t)(close - open - 1)) : key;
}

uint32_t nats_shard_of(const struct nats_bucket *bucket, struct kv_slice key)
{
    struct kv_slice part = bucket->by_tag ? tag_or_key(key) : key;
    return (uint32_t)(XXH3_64bits(part.data, part.size) % bucket->shards);
}
