/*
 * store_opening: what the daemon's options mean for its store.
 */
#ifndef MQKV_SERVERK_DAEMON_STORE_OPENING_H
#define MQKV_SERVERK_DAEMON_STORE_OPENING_H

#include "mqkv/kvstore.h"
#include "serverk/config/options.h"

/* How the store is opened; it is created if there is none. What it points to belongs to options. */
struct kvstore_options store_opening(const struct server_options *options);

#endif
