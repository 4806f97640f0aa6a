/*
 * bridge: kresp as a whole: listens, gives the connections to its threads, and ends at a signal.
 */
#ifndef MQKV_KRESP_BRIDGE_BRIDGE_H
#define MQKV_KRESP_BRIDGE_BRIDGE_H

#include <signal.h>
#include <sys/stat.h>

#include "bridges/kresp/session/redis_service.h"
#include "mqkv/error.h"

/* The settings of the bridge that the service does not need. */
struct bridge_settings {
    const char *socket_path;
    mode_t socket_mode;
    uint16_t port; /* 0: no TCP */
    unsigned threads;
    bool sandbox; /* bridge_sandbox.h: give up what is not needed */
};

/* Serves until one of `signals` comes, which the caller has blocked. The service's store is
 * open. */
enum kv_status bridge_run(struct redis_service *service, const struct bridge_settings *settings,
                          const sigset_t *signals, struct kv_error *error);

#endif
