/*
 * mirroring: the daemon's second copy in a cluster (--mirror), and a store built from one
 * (--restore-from).
 *
 * Threads: the main one.
 */
#ifndef MQKV_SERVERK_DAEMON_MIRRORING_H
#define MQKV_SERVERK_DAEMON_MIRRORING_H

#include "bridges/cluster/mirror/mirror.h"
#include "serverk/dispatch/service.h"

/* Starts the mirror that the options ask for, if any: before the first worker. Errors as
 * mirror_start. */
enum kv_status mirroring_start(struct service *service, struct kv_error *error);

/* Stops the mirror; to be called after the last write. */
void mirroring_stop(struct service *service);

/* Frees the mirror; to be called after the store was closed, which tells of changes until then. */
void mirroring_free(struct service *service);

/* Builds the store of the options, and prints what came of it. Errors as mirror_restore. */
enum kv_status mirroring_restore(const struct server_options *options,
                                 const struct kvstore_options *store_options,
                                 struct kv_error *error);

#endif
