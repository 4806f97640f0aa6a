/*
 * daemon_metrics: what the metrics say of the daemon's process, of what it has from the machine
 * (queues, descriptors, CPU, shared memory), and of what became of reloads, backups, the audit log
 * and those who wanted a session.
 */
#ifndef MQKV_SERVERK_DAEMON_DAEMON_METRICS_H
#define MQKV_SERVERK_DAEMON_DAEMON_METRICS_H

#include <stdio.h>

#include "serverk/daemon/stats_source.h"

/* Writes them to `out`. What the kernel does not tell is left out. Threads: any. */
void daemon_metrics_put(const struct stats_source *source, FILE *out);

#endif
