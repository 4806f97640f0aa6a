/*
 * stats_json: the statistics of the daemon as JSON text, for WIRE_OP_STATS (documented in serverk(1)).
 */
#ifndef MQKV_SERVERK_DAEMON_STATS_JSON_H
#define MQKV_SERVERK_DAEMON_STATS_JSON_H

#include <stddef.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "serverk/dispatch/service.h"

/* One object with the named section ("server", "operations", "latency", "files", "cache",
 * "sessions") as its member, or with all if `section` is empty. KV_NOT_FOUND: there is no such
 * section; KV_NO_MEMORY. *text is to be freed. */
enum kv_status stats_json(const struct service *service, struct kv_slice section, char **text,
                          size_t *size);

#endif
