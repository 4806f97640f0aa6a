/*
 * redis_service: what all connections share: the store, the rules that kresp was started with, and
 * what it counts.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_SERVICE_H
#define MQKV_KRESP_SESSION_REDIS_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/session/redis_store.h"
#include "bridges/kresp/session/redis_user.h"

/* The Redis that kresp answers like, as INFO and HELLO tell it. */
#define REDIS_COMPATIBLE_VERSION "7.0.15"

/* Constant once threads run, but for the atomics. */
struct redis_service {
    struct redis_store *store;
    const char *password; /* NULL: none is asked for */
    const char *socket_path;
    uint64_t port; /* 0: none */
    uint64_t max_request_bytes;
    uint64_t max_pipeline; /* commands of a connection that are executed in one turn */
    uint64_t threads;
    bool allow_flush;
    bool loose_watch;
    uint64_t start_ms; /* realtime */
    struct redis_users users;
    _Atomic uint64_t next_client_id;
    _Atomic uint64_t connections;  /* accepted since the start */
    _Atomic uint64_t refused;      /* connections, as there were too many */
    _Atomic uint64_t commands;     /* executed since the start */
    _Atomic uint64_t hits, misses; /* of GET and its like */
};

#endif
