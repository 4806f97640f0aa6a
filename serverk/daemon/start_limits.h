/*
 * start_limits: limits of the process (setrlimit(2)) that are too small to serve with. They are
 * raised where that is allowed. Otherwise the start is refused with a sentence, instead of a crash
 * or a daemon that lets nobody in.
 */
#ifndef MQKV_SERVERK_DAEMON_START_LIMITS_H
#define MQKV_SERVERK_DAEMON_START_LIMITS_H

#include <stdint.h>

#include "mqkv/error.h"
#include "serverk/config/options.h"

/* Before the first thread starts: raises the limit on open descriptors to the hard limit, and a
 * small limit on stacks to what the daemon's threads need. KV_LIMIT: the hard limit on stacks is
 * too small. */
enum kv_status start_limits_raise(struct kv_error *error);

/* To be called when the store and the queues are open, before the first receiver starts. KV_LIMIT:
 * too few descriptors are left for `receivers` receivers, a client, and a compaction or checkpoint
 * of a store of `datafiles` files. */
enum kv_status start_limits_check_descriptors(uint32_t datafiles, unsigned receivers,
                                              struct kv_error *error);

/* KV_DENIED: the options change nice values, and this process may not lower its own again. */
enum kv_status start_limits_check_nice(const struct server_options *options,
                                       struct kv_error *error);

#endif
