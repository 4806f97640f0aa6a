/*
 * natskv: a NATS JetStream cluster as an engine (engine/store_engine.h): the data are in S streams
 * of a bucket, spread over the servers of the cluster, each on R of them. docs/CLUSTER.md says what
 * that promises, and what it does not.
 *
 * Stream i of bucket B is KV_B_i; it has the keys with XXH3(key) mod S == i, each as a subject
 * $KV.B_i.KEY (nats_subject.h) whose last message is the entry. The version of an entry is the
 * sequence of its message times NATSKV_FOLD: writes that waited together for one key are one
 * message, and all but the last of them have versions below that one's, which no entry has.
 *
 * Threads: any. Outcomes come from a thread of the NATS client library, or from a timer of ours.
 */
#ifndef MQKV_NATSKV_NATSKV_H
#define MQKV_NATSKV_NATSKV_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/store_engine.h"

/* Of a nats-server 2.12, the first whose batches and per-message TTLs are sound. */
#define NATSKV_MIN_API_LEVEL 2

/* Most writes in one message. */
#define NATSKV_FOLD 1024u

#define NATSKV_MAX_SHARDS      256u
#define NATSKV_DEFAULT_SHARDS  4u
#define NATSKV_MAX_REPLICAS    5u
#define NATSKV_MAX_KEY_BYTES   3800u /* of a key as part of a subject */
#define NATSKV_OVERHEAD_BYTES  512u  /* of a message, beside the value */
#define NATSKV_MAX_BUCKET_NAME 64u

/* Strings are borrowed until the engine is closed. NULL: not given. */
struct natskv_options {
    const char *urls;         /* "nats://host:4222,tls://host" */
    const char *bucket;       /* letters, digits, '_', '-' */
    const char *cluster;      /* the name that the cluster must have */
    uint32_t shards;          /* 0: the bucket's own, NATSKV_DEFAULT_SHARDS for a new one */
    uint32_t replicas;        /* 0: the bucket's own, 1 for a new one */
    uint32_t max_value_bytes; /* 0: as much as the servers take */
    bool read_any;            /* reads may come from any replica, and so be stale */
    bool synced;              /* the operator says: servers sync before they acknowledge */
    bool check_only;          /* make no bucket that is not there */
    const char *credentials;  /* a file with a JWT and its key */
    const char *nkey;         /* PUBLICKEY:FILE, the file having the seed */
    const char *user;
    const char *password_file; /* its first line */
    const char *ca;            /* files, PEM */
    const char *certificate;
    const char *key;
};

/* Whether a bucket may have this name. */
bool natskv_bucket_name_valid(const char *name);

/* Whether this build has the engine. */
bool natskv_is_built_in(void);

/* Loads what looking up the servers' names and TLS need, which is not possible any more in a
 * sandbox. Before other threads are started. */
void natskv_prepare(const struct natskv_options *options);

/* Connects, checks the servers and the bucket, and makes the streams that are missing. Errors:
 * KV_NO_SERVER (nobody answers, or there is no quorum), KV_DENIED (credentials), KV_UNSUPPORTED
 * (the servers are too old; or this build has no NATS), KV_MISMATCH (the bucket is another one:
 * both numbers), KV_USAGE, KV_NOT_FOUND (check_only), KV_NO_MEMORY, KV_IO. */
enum kv_status natskv_open(const struct natskv_options *options, struct store_engine **engine,
                           struct kv_error *error);

#endif
