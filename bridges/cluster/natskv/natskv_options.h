/*
 * natskv_options: how the engine is opened, and its limits.
 */
#ifndef MQKV_NATSKV_NATSKV_OPTIONS_H
#define MQKV_NATSKV_NATSKV_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The API level of nats-server 2.12, the first version whose batches and per-message TTLs are
 * sound. */
#define NATSKV_MIN_API_LEVEL 2

/* The most writes in one message. */
#define NATSKV_FOLD 1024u

#define NATSKV_MAX_SHARDS      256u
#define NATSKV_DEFAULT_SHARDS  4u
#define NATSKV_MAX_REPLICAS    5u
#define NATSKV_MAX_KEY_BYTES   3800u /* longest key, as part of a subject */
#define NATSKV_OVERHEAD_BYTES  512u  /* bytes of a message besides the value */
#define NATSKV_MAX_BUCKET_NAME 64u

/* The strings are borrowed until the engine is closed. NULL: not given. */
struct natskv_options {
    const char *urls;         /* "nats://host:4222,tls://host" */
    const char *bucket;       /* letters, digits, '_', '-' */
    const char *cluster;      /* the name that the cluster must have */
    uint32_t shards;          /* 0: the bucket's own, NATSKV_DEFAULT_SHARDS for a new one */
    uint32_t replicas;        /* 0: the bucket's own, 1 for a new one */
    uint32_t max_value_bytes; /* 0: as much as the servers take */
    bool read_any;            /* reads may come from any replica, and so be stale */
    bool synced;              /* the operator says that servers sync before they acknowledge */
    bool check_only;          /* write nothing: make no bucket that is missing, and do not sweep */
    const char *mirror_of;    /* the bucket must be the copy of this store, as a new one will be */
    const char *credentials;  /* a file with a JWT and its key */
    const char *nkey;         /* PUBLICKEY:FILE; the file has the seed */
    const char *user;
    const char *password_file; /* a file whose first line is the password */
    const char *ca;            /* PEM files */
    const char *certificate;
    const char *key;
};

/* What a bucket says of itself as a copy. */
struct natskv_copy {
    bool is_copy;  /* it was made with mirror_of */
    char mark[64]; /* the mark of all its streams; "": they differ, or have none */
};

/* Returns true if a bucket may have this name. */
bool natskv_bucket_name_valid(const char *name);

#endif
