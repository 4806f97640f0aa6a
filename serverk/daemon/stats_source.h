/*
 * stats_source: where the statistics of the daemon come from, for those who tell them (stats_json,
 * metrics).
 */
#ifndef MQKV_SERVERK_DAEMON_STATS_SOURCE_H
#define MQKV_SERVERK_DAEMON_STATS_SOURCE_H

#include <dirent.h>
#include <stdint.h>

#include "serverk/dispatch/service.h"
#include "serverk/sandbox/sandbox.h"

struct reload;

/* What the statistics describe. */
struct stats_source {
    const struct service *service;
    struct sandbox sandbox;      /* which of its parts are on */
    uint64_t started_ns;         /* of the daemon, CLOCK_MONOTONIC */
    uint64_t started_real_ms;    /* the same since 1970 */
    const struct reload *reload; /* NULL: none */
    DIR *descriptors;            /* /proc/self/fd, opened before the sandbox; NULL: not to be had */
    int memory; /* /proc/self/statm, opened before the sandbox; below 0: not to be had */
};

/* Adds up what all threads have counted; *sum is of statistics_create. Threads: any. */
void stats_source_sum(const struct stats_source *source, struct worker_statistics *sum);

#endif
