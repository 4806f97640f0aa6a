/*
 * metrics: the statistics of the daemon in the text format of Prometheus (exposition format 0.0.4),
 * with names by its conventions: base units (seconds, bytes), _total for what only grows. For
 * WIRE_OP_STATS (clientk metrics), and for metrics_file.
 */
#ifndef MQKV_SERVERK_DAEMON_METRICS_H
#define MQKV_SERVERK_DAEMON_METRICS_H

#include <stddef.h>

#include "mqkv/status.h"
#include "serverk/daemon/stats_source.h"

/* The section of STATS that is this text. */
#define METRICS_SECTION "metrics"

/* Writes the metrics to *text, which is to be freed. KV_NO_MEMORY. Threads: any. */
enum kv_status metrics_text(const struct stats_source *source, char **text, size_t *size);

#endif
