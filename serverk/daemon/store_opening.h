/*
 * store_opening: what the daemon's options mean for its store.
 */
#ifndef MQKV_SERVERK_DAEMON_STORE_OPENING_H
#define MQKV_SERVERK_DAEMON_STORE_OPENING_H

#include "mqkv/kvstore.h"
#include "serverk/config/options.h"

/* Returns how the store is opened; it is created if there is none. What the result points to
 * belongs to `options`. */
struct kvstore_options store_opening(const struct server_options *options);

/* Returns `status`, with which the store was not opened. Where that is KV_USAGE and nobody has
 * named the directory, *error then also says how to. */
enum kv_status store_opening_advise(const struct server_options *options, enum kv_status status,
                                    struct kv_error *error);

#endif
