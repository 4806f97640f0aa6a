/*
 * start_check: whether a start with these options would succeed (--check).
 */
#ifndef MQKV_SERVERK_DAEMON_START_CHECK_H
#define MQKV_SERVERK_DAEMON_START_CHECK_H

#include "mqkv/error.h"
#include "serverk/config/options.h"

/* Prints what would be opened, and changes nothing. Errors are those of server_start, with a
 * sentence. */
enum kv_status start_check(const struct server_options *options, struct kv_error *error);

#endif
