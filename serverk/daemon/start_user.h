/*
 * start_user: whether the daemon's user is one whom the daemon can tell from others.
 */
#ifndef MQKV_SERVERK_DAEMON_START_USER_H
#define MQKV_SERVERK_DAEMON_START_USER_H

#include "mqkv/error.h"

/* KV_DENIED: the uid of this process stands for all users that its user namespace does not map, so
 * that each of them would be taken for the daemon's owner. */
enum kv_status start_user_check(struct kv_error *error);

#endif
