/*
 * life_log: what the log says of the daemon when it is ready, and when it has stopped.
 */
#ifndef MQKV_SERVERK_DAEMON_LIFE_LOG_H
#define MQKV_SERVERK_DAEMON_LIFE_LOG_H

#include "serverk/sandbox/sandbox.h"
#include "serverk/dispatch/service.h"

/* Logs that the daemon is ready, what it gave up at its start (sandbox.h), and which of its options
 * have no effect or one that may surprise. */
void life_log_start(const struct service *service, const struct sandbox *given_up);

/* Logs that the daemon has stopped, and that all went well. */
void life_log_stop(const struct server_options *options);

#endif
