/*
 * stats_json: the statistics of the daemon as JSON text, for WIRE_OP_STATS (documented in
 * serverk(1)).
 */
#ifndef MQKV_SERVERK_DAEMON_STATS_JSON_H
#define MQKV_SERVERK_DAEMON_STATS_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"

/* A stats_writer of a struct stats_source. One object with the named section ("server",
 * "operations", "latency", "schedule", "files", "cache", "sessions") as its member, or with all if
 * `section` is empty; of section METRICS_SECTION the text of metrics.h. KV_NOT_FOUND: there is no
 * such section; KV_NO_MEMORY. *text is to be freed. Threads: any. */
enum kv_status stats_json(const void *source, struct kv_slice section, char **text, size_t *size);

#endif
