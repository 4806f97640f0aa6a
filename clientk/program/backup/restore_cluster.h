/*
 * restore_cluster: a store made from a bucket of a NATS cluster. serverk does it (--restore-from),
 * since it alone speaks to clusters; this program becomes it.
 */
#ifndef MQKV_CLIENTK_PROGRAM_BACKUP_RESTORE_CLUSTER_H
#define MQKV_CLIENTK_PROGRAM_BACKUP_RESTORE_CLUSTER_H

#include "mqkv/error.h"

/* Words of serverk's command line, which checks them; NULL: not given. */
struct cluster_words {
    const char *urls;
    const char *bucket;
    const char *dir;
    const char *config; /* its configuration file: credentials, TLS */
};

/* Returns only if there is no serverk to become: KV_UNSUPPORTED, or why the kernel refused it. */
enum kv_status restore_from_cluster(const struct cluster_words *words, struct kv_error *error);

#endif
