/*
 * natskv: a NATS JetStream cluster as an engine (engine/store_engine.h): the data are in S streams
 * of a bucket, spread over the servers of the cluster, each on R of them. docs/CLUSTER.md says what
 * that promises, and what it does not.
 *
 * Stream i of bucket B is KV_B_i; it has the keys with XXH3(key or tag) mod S == i (nats_shard.h),
 * each as a subject $KV.B_i.KEY (nats_subject.h) whose last message is the entry. The version of an
 * entry is the sequence of its message times NATSKV_FOLD: writes that waited together for one key
 * are one message, and all but the last of them have versions below that one's, which no entry has.
 *
 * Threads: any. Outcomes come from a thread of the NATS client library, or from a timer of ours.
 */
#ifndef MQKV_NATSKV_NATSKV_H
#define MQKV_NATSKV_NATSKV_H

#include <stdbool.h>

#include "engine/store_engine.h"
#include "bridges/cluster/natskv/natskv_options.h"

/* Returns true if this build has the engine. */
bool natskv_is_built_in(void);

/* Loads what is needed to look up the servers' names and for TLS, which is not possible any more in
 * a sandbox. Called before other threads are started. */
void natskv_prepare(const struct natskv_options *options);

/* Connects, checks the servers and the bucket, and makes the streams that are missing. Errors:
 * KV_NO_SERVER (nobody answers, or there is no quorum), KV_DENIED (credentials), KV_UNSUPPORTED
 * (the servers are too old; or this build has no NATS), KV_MISMATCH (the bucket is another one:
 * both numbers), KV_USAGE, KV_NOT_FOUND (check_only), KV_NO_MEMORY, KV_IO. */
enum kv_status natskv_open(const struct natskv_options *options, struct store_engine **engine,
                           struct kv_error *error);

/* Returns the shard of such an engine in which the key lies: keys of one shard may change in one
 * transaction. */
uint32_t natskv_shard(const struct store_engine *engine, struct kv_slice key);

/* natskv_copy reads the mark of the bucket of such an engine, natskv_mark_copy sets it: up to 63
 * letters, digits, and ' '. A stream that was made since has none. They ask the servers, and wait
 * up to 15 seconds for each of the streams. Errors: KV_NO_SERVER, KV_NOT_FOUND (a stream is gone),
 * KV_MISMATCH, KV_NO_MEMORY, KV_IO. */
enum kv_status natskv_copy(struct store_engine *engine, struct natskv_copy *copy,
                           struct kv_error *error);
enum kv_status natskv_mark_copy(struct store_engine *engine, const char *mark,
                                struct kv_error *error);

#endif
