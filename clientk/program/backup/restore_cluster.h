/*
 * restore_cluster: makes a store from a bucket of a NATS cluster. serverk does that
 * (--restore-from), since only serverk speaks to clusters; this process becomes serverk.
 */
#ifndef MQKV_CLIENTK_PROGRAM_BACKUP_RESTORE_CLUSTER_H
#define MQKV_CLIENTK_PROGRAM_BACKUP_RESTORE_CLUSTER_H

#include "mqkv/error.h"

/* Values of options of serverk, which checks them; NULL: not given. */
struct cluster_words {
    const char *urls;
    const char *bucket;
    const char *dir;
    const char *config; /* serverk's configuration file: credentials, TLS */
};

/* Becomes serverk. Returns only if it cannot: KV_UNSUPPORTED: there is no serverk beside clientk;
 * else why the kernel refused to run it. */
enum kv_status restore_from_cluster(const struct cluster_words *words, struct kv_error *error);

#endif
