/*
 * redis_service: what all connections share: the store, the rules that kresp was started with, and
 * the counters.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_SERVICE_H
#define MQKV_KRESP_SESSION_REDIS_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/channels/tracking_table.h"
#include "bridges/kresp/session/channel_link.h"
#include "bridges/kresp/session/redis_store.h"
#include "bridges/kresp/session/redis_user.h"
#include "bridges/kresp/session/scan_places.h"

/* The version of Redis that INFO and HELLO report. */
#define REDIS_COMPATIBLE_VERSION "7.0.15"

/* Constant once threads run, but for the atomics. */
struct redis_service {
    struct redis_store *store;
    const char *password; /* NULL: clients need none */
    const char *socket_path;
    uint64_t port; /* 0: no TCP */
    uint64_t max_request_bytes;
    uint64_t max_pipeline; /* commands of a connection that are executed in one batch */
    uint64_t threads;
    bool allow_flush;
    uint64_t start_ms; /* realtime clock */
    struct redis_users users;
    struct redis_channels channels;
    struct tracking_table tracking;
    struct scan_places scans;
    struct channel_link *link; /* NULL: messages stay in this kresp */
    _Atomic uint64_t next_client_id;
    _Atomic uint64_t connections;  /* accepted since the start */
    _Atomic uint64_t refused;      /* connections that were refused because there were too many */
    _Atomic uint64_t commands;     /* executed since the start */
    _Atomic uint64_t hits, misses; /* hits and misses of GET and similar commands */
    _Atomic uint64_t saved_ms;     /* realtime clock: the last SAVE; at first the start */
};

#endif
