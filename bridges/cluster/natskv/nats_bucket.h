/*
 * nats_bucket: the streams of a bucket: checks that the servers are new enough and that existing
 * streams are the right ones, and makes those that are missing.
 */
#ifndef MQKV_NATSKV_NATS_BUCKET_H
#define MQKV_NATSKV_NATS_BUCKET_H

#include "bridges/cluster/natskv/nats_link.h"

struct nats_bucket {
    char name[NATSKV_MAX_BUCKET_NAME + 1];
    char cluster[64];   /* name of the cluster; "": the server is alone */
    char mirror_of[64]; /* what a new stream is told to be the copy of */
    uint32_t shards;
    uint32_t replicas;
    bool by_tag;        /* keys with one tag lie in one shard (nats_shard.h) */
    bool guards_others; /* the servers check in a batch what it does not write (nats_transact.h) */
};

/* "KV_B_3". */
#define NATS_STREAM_NAME_BYTES (NATSKV_MAX_BUCKET_NAME + 16u)
void nats_bucket_stream(const struct nats_bucket *bucket, uint32_t shard,
                        char name[NATS_STREAM_NAME_BYTES]);

/* Checks the servers and the bucket as natskv_open says, and makes missing streams. */
enum kv_status nats_bucket_open(struct nats_link *link, const struct natskv_options *options,
                                struct nats_bucket *bucket, struct kv_error *error);

/* natskv_copy, natskv_mark_copy. */
enum kv_status nats_bucket_mark(struct nats_link *link, const struct nats_bucket *bucket,
                                struct natskv_copy *copy, struct kv_error *error);
enum kv_status nats_bucket_set_mark(struct nats_link *link, const struct nats_bucket *bucket,
                                    const char *mark, struct kv_error *error);

#endif
