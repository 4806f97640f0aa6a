/*
 * nats_shard: the shard that a key lies in. Keys that change together in a transaction must lie in
 * one: those that have the same tag do, the bytes between the first '{' and the first '}' behind
 * it, as in Redis Cluster. A key without such a tag, or with an empty one, goes by itself as a
 * whole; and so does every key of a bucket that was made before there were tags.
 */
#ifndef MQKV_NATSKV_NATS_SHARD_H
#define MQKV_NATSKV_NATS_SHARD_H

#include <stdint.h>

#include "bridges/cluster/natskv/nats_bucket.h"
#include "mqkv/slice.h"

/* Returns the shard of the key, below bucket->shards. */
uint32_t nats_shard_of(const struct nats_bucket *bucket, struct kv_slice key);

#endif
